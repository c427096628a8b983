import { formatBytes, formatCount } from './format';

/** The quotas that have names in every language; another one is shown by its code. */
export const quotaNames = [
  'namespaces',
  'topics',
  'groups',
  'api_keys',
  'service_accounts',
  'acls',
  'members',
  'invitations',
  'roles',
  'role_bindings',
  'send_messages',
  'send_bytes',
  'receive_messages',
  'requests',
] as const;
export type QuotaName = (typeof quotaNames)[number];

export function isQuotaName(code: string): code is QuotaName {
  return (quotaNames as readonly string[]).includes(code);
}

const rateUnits = ['messages/s', 'requests/s', 'bytes/s'] as const;
type RateUnit = (typeof rateUnits)[number];

export function isRateUnit(code: string): code is RateUnit {
  return (rateUnits as readonly string[]).includes(code);
}

/** A number of the unit as it is shown: bytes in the binary unit that fits. */
export function formatQuota(n: number, unit: string, locale: string): string {
  return unit === 'bytes' || unit === 'bytes/s' ? formatBytes(n, locale) : formatCount(n, locale);
}
