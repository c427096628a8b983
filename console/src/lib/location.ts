import { useSyncExternalStore } from 'react';
import { basePath } from '../api/client';

/**
 * The address as the light pages see it. They come before the router is loaded; the router takes over inside the
 * console, and both speak through the browser's history.
 */
const listeners = new Set<() => void>();

function here(): string {
  return location.pathname + location.search;
}

let current = here();

function changed() {
  current = here();
  for (const l of [...listeners]) {
    l();
  }
}

window.addEventListener('popstate', changed);

/** Path below the base path, beginning with a slash. */
export function pathOf(full: string): string {
  const path = full.split('?')[0] ?? '/';
  return path.startsWith(basePath) ? `/${path.slice(basePath.length)}` : path;
}

/** Goes to a path below the base path. */
export function go(to: string, how: 'push' | 'replace' = 'push'): void {
  const url = basePath.replace(/\/$/, '') + to;
  if (how === 'push') {
    history.pushState(null, '', url);
  } else {
    history.replaceState(null, '', url);
  }
  changed();
}

export function href(to: string): string {
  return basePath.replace(/\/$/, '') + to;
}

export function useAddress(): { path: string; query: URLSearchParams } {
  const full = useSyncExternalStore(
    (l) => {
      listeners.add(l);
      return () => listeners.delete(l);
    },
    () => current,
  );
  return { path: pathOf(full), query: new URLSearchParams(full.split('?')[1] ?? '') };
}
