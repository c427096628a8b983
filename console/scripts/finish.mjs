// After the build: checks what a first visit loads against its budget, then lays compressed copies beside the files, so
// that the server never compresses at run time.
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const dist = new URL('../dist/', import.meta.url).pathname;
const manifest = JSON.parse(readFileSync(join(dist, 'manifest.json'), 'utf8'));

const budgets = [
  { page: 'sign-in', limit: 110_000, entries: ['index.html'] },
  { page: 'sign-up, verify', limit: 110_000, entries: ['index.html', 'src/light/Verify.tsx'] },
  { page: 'second factor', limit: 110_000, entries: ['index.html', 'src/light/SecondStep.tsx'] },
  { page: 'reopen', limit: 110_000, entries: ['index.html', 'src/light/Reopen.tsx'] },
  { page: 'undo e-mail', limit: 110_000, entries: ['index.html', 'src/light/UndoEmail.tsx'] },
  { page: 'first message', limit: 130_000, entries: ['index.html', 'src/light/Start.tsx'] },
  ...[
    'Topics',
    'Topic',
    'Groups',
    'Group',
    'Keys',
    'Key',
    'Roles',
    'ServiceAccounts',
    'Security',
    'Provider',
    'Usage',
    'Costs',
    'Quotas',
    'Namespaces',
    'Account',
    'Members',
    'Access',
    'Audit',
  ].map((p) => ({
    page: p,
    limit: 450_000,
    entries: ['index.html', 'src/app/App.tsx', `src/app/pages/${p}.tsx`],
    texts: ['', 'console/'],
  })),
];

function filesOf(name, seen = new Set()) {
  const chunk = manifest[name];
  if (!chunk) {
    throw new Error(`${name} is not in the manifest`);
  }
  if (!seen.has(chunk.file)) {
    seen.add(chunk.file);
    for (const css of chunk.css ?? []) {
      seen.add(css);
    }
    for (const i of chunk.imports ?? []) {
      filesOf(i, seen);
    }
  }
  return seen;
}

const sizes = new Map();
function gzipped(file) {
  if (!sizes.has(file)) {
    sizes.set(file, gzipSync(readFileSync(join(dist, file)), { level: 9 }).length);
  }
  return sizes.get(file);
}

const kb = (n) => `${(n / 1000).toFixed(1)} kB`;
let over = 0;
let fullest = { share: 0, text: '' };
for (const { page, limit, entries, texts = [''] } of budgets) {
  const files = new Set();
  for (const entry of entries) {
    filesOf(entry, files);
  }
  // One language is loaded with the first page; the larger one counts.
  const words = ['en', 'zh'].map((language) => {
    const own = new Set(texts.flatMap((part) => [...filesOf(`src/i18n/${part}${language}.json`, new Set())]));
    return [...own].filter((f) => !files.has(f)).reduce((n, f) => n + gzipped(f), 0);
  });
  const total = [...files].reduce((n, f) => n + gzipped(f), 0) + Math.max(...words);
  const text = `${page}: ${kb(total)} gzip of ${kb(limit)}`;
  if (total / limit > fullest.share) {
    fullest = { share: total / limit, text };
  }
  if (total > limit) {
    over++;
    console.error(`over its budget: ${text}`);
  }
}
console.log(`console: ${budgets.length} pages; the nearest to its budget is ${fullest.text}`);

rmSync(join(dist, 'manifest.json'));
const texts = new Set(['.js', '.css', '.svg', '.json']);
for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
  const path = join(entry.parentPath, entry.name);
  // index.html stays plain: the server writes the base path into it.
  if (!entry.isFile() || !texts.has(extname(entry.name)) || statSync(path).size < 1024) {
    continue;
  }
  const data = readFileSync(path);
  writeFileSync(`${path}.gz`, gzipSync(data, { level: 9 }));
  writeFileSync(
    `${path}.br`,
    brotliCompressSync(data, {
      params: { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_SIZE_HINT]: data.length },
    }),
  );
}
if (over > 0) {
  console.error(`${over} pages are over their budget`);
  process.exit(1);
}
