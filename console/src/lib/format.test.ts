import { expect, it } from 'vitest';
import { formatAmount, formatBytes, formatCount, formatMicros } from './format';
import { prettyJson } from './json';

it('shows whole numbers of any length without losing a digit', () => {
  expect(formatCount('9007199254740993', 'en')).toBe('9,007,199,254,740,993');
  expect(formatCount('odd', 'en')).toBe('odd');
});

it('shows money exactly', () => {
  expect(formatAmount('0', 2, 'USD', 'en')).toBe('$0.00');
  expect(formatAmount('80', 2, 'USD', 'en')).toBe('$0.80');
  expect(formatAmount('900719925474099301', 2, 'USD', 'en')).toBe('$9,007,199,254,740,993.01');
  expect(formatAmount('-5', 2, 'USD', 'en')).toBe('-$0.05');
  expect(formatAmount('1234', 0, 'JPY', 'en')).toBe('¥1,234');
  expect(formatMicros('400000', 'USD', 'en')).toBe('$0.40');
  expect(formatMicros('1', 'USD', 'en')).toBe('$0.000001');
  expect(formatMicros('1250000', 'USD', 'zh-CN')).toBe('US$1.25');
});

it('shows bytes in binary units', () => {
  expect(formatBytes('0', 'en')).toBe('0 B');
  expect(formatBytes('4194304', 'en')).toBe('4 MiB');
  expect(formatBytes(1536, 'en')).toBe('1.5 KiB');
});

it('indents JSON and leaves every token as it was sent', () => {
  expect(prettyJson('{"a":9007199254740993,"b":[1.0,{}],"c":"x\\"{,}"}')).toBe(
    '{\n  "a": 9007199254740993,\n  "b": [\n    1.0,\n    {}\n  ],\n  "c": "x\\"{,}"\n}',
  );
  expect(prettyJson('[]')).toBe('[]');
  expect(prettyJson('hello')).toBeUndefined();
  expect(prettyJson('{broken')).toBeUndefined();
});
