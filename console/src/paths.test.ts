import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { isLightPath, paths } from './paths';

const folder = join(import.meta.dirname, '../../controlplane/mail');

/** The paths behind {url} in every text of a mail. */
function linked(): string[] {
  const sources = readdirSync(folder).filter((f) => f.endsWith('.go') && !f.endsWith('_test.go'));
  const found = sources.flatMap((f) => [...readFileSync(join(folder, f), 'utf8').matchAll(/\{url\}(\/[/\w-]*)/g)]);
  return [...new Set(found.map((m) => m[1] as string))].sort();
}

function isRouted(path: string): boolean {
  return isLightPath(path) || Object.values(paths).some((p) => p === path);
}

describe('links of mails', () => {
  it('are found', () => {
    expect(linked()).toEqual(expect.arrayContaining(['/verify', '/reset-password', '/invitations/accept', '/reopen']));
  });

  it('lead to a page of the console, each of them', () => {
    expect(linked().filter((p) => !isRouted(p))).toEqual([]);
  });

  it('would be missed if they did not', () => {
    expect(isRouted('/reopen-it')).toBe(false);
    expect(isRouted('/undo')).toBe(false);
  });
});
