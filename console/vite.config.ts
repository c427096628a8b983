import react from '@vitejs/plugin-react';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  base: '/',
  plugins: [react()],
  // Files find each other relative to where they lie, so one build serves at any path; only index.html names paths from
  // the root.
  experimental: {
    renderBuiltUrl: (_, { hostType }) => (hostType === 'html' ? undefined : { relative: true }),
  },
  build: {
    target: 'es2022',
    manifest: 'manifest.json',
    sourcemap: false,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1600,
  },
  server: {
    proxy: {
      // The server must see the host that the browser is at: security keys are bound to it.
      '^/(v1|errors|mailbox)': { target: process.env.SLUICE_URL ?? 'http://127.0.0.1:8080', changeOrigin: false },
    },
  },
  test: {
    environment: 'node',
    include: ['src/**/*.test.ts'],
  },
});
