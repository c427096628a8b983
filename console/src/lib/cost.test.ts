import { expect, it } from 'vitest';
import { formatQuantity, isCostUnit, isMeter, isUsualPrice } from './cost';

const gib = 1024 ** 3;
const gibHour = String(BigInt(gib) * 3_600_000n);

it('shows quantities in GiB and GiB-hours, and 4 KiB units one by one', () => {
  expect(formatQuantity('3000000', 'unit_4k', 'en')).toBe('3,000,000');
  expect(formatQuantity(String(gib), 'byte', 'en')).toBe('1');
  expect(formatQuantity(String(gib * 1.5), 'byte', 'en')).toBe('1.5');
  expect(formatQuantity(String(Math.round(gib * 123.456)), 'byte', 'en')).toBe('123.5');
  expect(formatQuantity(String(BigInt(gibHour) * 720n), 'byte_ms', 'en')).toBe('720');
});

it('rounds long quantities to whole ones without losing a digit before that', () => {
  const many = 9_007_199_254_740_993n * BigInt(gib);
  expect(formatQuantity(String(many), 'byte', 'en')).toBe('9,007,199,254,740,993');
  expect(formatQuantity(String(1000 * gib + gib / 2), 'byte', 'en')).toBe('1,001');
  expect(formatQuantity(String(1000 * gib + gib / 2 - 1), 'byte', 'en')).toBe('1,000');
});

it('does not call little nothing', () => {
  expect(formatQuantity('0', 'byte', 'en')).toBe('0');
  expect(formatQuantity('42', 'byte', 'en')).toBe('< 0.001');
  expect(formatQuantity('odd', 'byte', 'en')).toBe('odd');
});

it('knows the prices of the price book, and leaves others as they are', () => {
  expect(gibHour).toBe('3865470566400000');
  expect(isUsualPrice('unit_4k', '1000000')).toBe(true);
  expect(isUsualPrice('byte', '1073741824')).toBe(true);
  expect(isUsualPrice('byte_ms', gibHour)).toBe(true);
  expect(isUsualPrice('byte', '1000')).toBe(false);
  expect(isCostUnit('toString')).toBe(false);
  expect(isMeter('egress_bytes')).toBe(true);
  expect(isMeter('something_new')).toBe(false);
});
