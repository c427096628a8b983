import { expect, it } from 'vitest';
import en from '../i18n/en.json';
import { formatQuota, isQuotaName, isRateUnit, quotaNames } from './quota';

it('shows rates of bytes in the unit that fits, and everything else as a number', () => {
  expect(formatQuota(104_857_600, 'bytes/s', 'en')).toBe('100 MiB');
  expect(formatQuota(1_000, 'bytes/s', 'en')).toBe('1,000 B');
  expect(formatQuota(50_000, 'messages/s', 'en')).toBe('50,000');
  expect(formatQuota(50, 'api_keys', 'en')).toBe('50');
});

it('has a name for each quota it knows, and knows no others', () => {
  expect(Object.keys(en.quota_name).sort()).toEqual([...quotaNames].sort());
  expect(isQuotaName('api_keys')).toBe(true);
  expect(isQuotaName('something_new')).toBe(false);
  expect(isRateUnit('bytes/s')).toBe(true);
  expect(isRateUnit('api_keys')).toBe(false);
});
