import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import enConsole from './console/en.json';
import zhConsole from './console/zh.json';
import en from './en.json';
import zh from './zh.json';

function flatten(o: object, prefix = ''): Map<string, string> {
  const out = new Map<string, string>();
  for (const [k, v] of Object.entries(o)) {
    if (typeof v === 'object' && v !== null) {
      for (const [k2, v2] of flatten(v, `${prefix}${k}.`)) {
        out.set(k2, v2);
      }
    } else {
      out.set(prefix + k, String(v));
    }
  }
  return out;
}

function placeholders(text: string): string[] {
  return [...text.matchAll(/\{\{(\w+)\}\}/g)].map((m) => m[1] as string).sort();
}

function sources(dir: string): string[] {
  return readdirSync(dir, { withFileTypes: true }).flatMap((e) =>
    e.isDirectory()
      ? sources(join(dir, e.name))
      : /\.tsx?$/.test(e.name) && !/\.test\.|\.d\.ts$/.test(e.name)
        ? [join(dir, e.name)]
        : [],
  );
}

const light = flatten(en);
const english = new Map([...light, ...flatten(enConsole)]);
const chinese = new Map([...flatten(zh), ...flatten(zhConsole)]);
const src = join(import.meta.dirname, '..');
const literalKeys = (code: string) => [...code.matchAll(/\bt\(\s*'([\w.]+)'/g)].map((m) => m[1] as string);

const shownAttributes = /\b(aria-label|title|placeholder|label|alt|extra|okText|cancelText|caption)="([^"]*)"/g;

describe('texts', () => {
  it('are the only words that pages show: no attribute holds a literal one', () => {
    const found = sources(src)
      .filter((f) => f.endsWith('.tsx'))
      .flatMap((f) => [...readFileSync(f, 'utf8').matchAll(shownAttributes)].map((m) => `${f}: ${m[0]}`));
    expect(found).toEqual([]);
  });

  it('have the same keys in every language', () => {
    expect([...chinese.keys()].sort()).toEqual([...english.keys()].sort());
  });

  it('are never empty and fill in the same values', () => {
    for (const [key, text] of english) {
      expect(text, key).not.toBe('');
      expect(chinese.get(key), key).not.toBe('');
      expect(placeholders(chinese.get(key) ?? ''), key).toEqual(placeholders(text));
    }
  });

  it('hold no Chinese in English', () => {
    for (const [key, text] of english) {
      if (key !== 'language.zh') {
        expect(text, key).not.toMatch(/\p{Script=Han}/u);
      }
    }
  });

  it('are all used, and every literal key in the sources exists', () => {
    const code = sources(src)
      .map((f) => readFileSync(f, 'utf8'))
      .join('\n');
    for (const key of literalKeys(code)) {
      expect(english.has(key) || english.has(`${key}_other`), key).toBe(true);
    }
    const families = [...code.matchAll(/`([\w-]+\.[\w.]*)\$\{/g)].map((m) => m[1] as string);
    const unused = [...english.keys()].filter((k) => {
      const bare = k.replace(/_(one|other)$/, '');
      return !code.includes(`'${k}'`) && !code.includes(`'${bare}'`) && !families.some((f) => k.startsWith(f));
    });
    expect(unused).toEqual([]);
  });

  it('of the light pages come with the first page', () => {
    const files = [...['light', 'lib', 'api'].flatMap((d) => sources(join(src, d))), join(src, 'Root.tsx')];
    const late = files
      .flatMap((f) => literalKeys(readFileSync(f, 'utf8')).map((key) => ({ f, key })))
      .filter(({ key }) => !light.has(key) && !light.has(`${key}_other`));
    expect(late).toEqual([]);
  });

  it('stand in one of the two files only', () => {
    expect([...flatten(enConsole).keys()].filter((k) => light.has(k))).toEqual([]);
    expect([...flatten(zhConsole).keys()].filter((k) => flatten(zh).has(k))).toEqual([]);
    expect([...flatten(zh).keys()].sort()).toEqual([...light.keys()].sort());
  });
});
