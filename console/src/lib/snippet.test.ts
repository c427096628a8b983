import { describe, expect, it } from 'vitest';
import en from '../i18n/en.json';
import { clientLanguages, consoleMark, fillSecret, sentByConsole } from './snippet';

describe('fillSecret', () => {
  it('puts the secret in place of every placeholder, character by character', () => {
    const secret = 'sls_$&$1EXAMPLE';
    expect(fillSecret('a(YOUR_SECRET) b(YOUR_SECRET)', 'YOUR_SECRET', secret)).toBe(`a(${secret}) b(${secret})`);
  });

  it('leaves the text alone when the secret is not known here', () => {
    expect(fillSecret('x YOUR_SECRET', 'YOUR_SECRET', undefined)).toBe('x YOUR_SECRET');
    expect(fillSecret('x', '', 'sls_1')).toBe('x');
  });
});

it('has a name for every client', () => {
  expect(Object.keys(en.client).sort()).toEqual([...clientLanguages].sort());
});

it('knows its own messages', () => {
  expect(sentByConsole({ properties: { [consoleMark.key]: consoleMark.value } })).toBe(true);
  expect(sentByConsole({ properties: { [consoleMark.key]: 'elsewhere' } })).toBe(false);
  expect(sentByConsole({ properties: {} })).toBe(false);
  expect(sentByConsole({})).toBe(false);
});
