import { describe, expect, it } from 'vitest';
import { fromLocalInput, toLocalInput } from './localTime';
import { costsSearch, keysSearch, topicSearch, topicsSearch, usageSearch } from './search';
import { fieldPath } from './useSave';

describe('what addresses say', () => {
  it('is kept when it makes sense', () => {
    expect(topicsSearch({ prefix: 'ord', type: 'FIFO', page: 'abc' })).toEqual({
      prefix: 'ord',
      type: 'FIFO',
      page: 'abc',
    });
    expect(topicsSearch({ prefix: 2026 })).toEqual({ prefix: '2026' });
    expect(keysSearch({ state: 'revoked', ns: 'k7m2q9x4w1bz' })).toEqual({ state: 'revoked', ns: 'k7m2q9x4w1bz' });
    expect(topicSearch({ offset: '9007199254740993' })).toEqual({ offset: '9007199254740993' });
    expect(costsSearch({ month: '2026-09' })).toEqual({ month: '2026-09' });
  });

  it('is left out when it does not', () => {
    expect(topicsSearch({ type: 'WRONG', prefix: '', page: {} })).toEqual({});
    expect(topicsSearch({ prefix: 'x'.repeat(101) })).toEqual({});
    expect(usageSearch({ range: 'forever', from: 'yesterday', by: ['topic'] })).toEqual({});
    expect(costsSearch({ month: '2026-13' })).toEqual({});
  });
});

it('times survive the way through an input, to the second', () => {
  const iso = '2026-03-29T01:30:05.000Z';
  expect(fromLocalInput(toLocalInput(iso))).toBe(iso);
  expect(fromLocalInput('')).toBeUndefined();
  expect(toLocalInput('odd')).toBeUndefined();
});

it('finds the input that a problem names', () => {
  expect(fieldPath('name')).toEqual(['name']);
  expect(fieldPath('scopes[0].permissions[1]')).toEqual(['scopes', 0, 'permissions', 1]);
});
