import type { Schemas } from '../../../api/client';
import { durationMs } from '../../../lib/duration';

type Security = Schemas['TenantSecurity'];

/** What comes of a change, in the order in which it is told; nothing of it can be undone for those it hits. */
export type Consequence = 'mfa' | 'sso' | 'age';

/** What was changed, as the API takes it; undefined when nothing was. */
export function changed(was: Security, is: Security): Schemas['TenantSecurityUpdate'] | undefined {
  const out: Schemas['TenantSecurityUpdate'] = {
    ...(is.mfa_required !== was.mfa_required ? { mfa_required: is.mfa_required } : {}),
    ...(is.sso_required !== was.sso_required ? { sso_required: is.sso_required } : {}),
    ...(is.max_key_age !== was.max_key_age ? { max_key_age: is.max_key_age ?? null } : {}),
  };
  return Object.keys(out).length > 0 ? out : undefined;
}

/** Who is hit at once. */
export function consequences(was: Security, is: Security): Consequence[] {
  const before = durationMs(was.max_key_age) ?? Number.POSITIVE_INFINITY;
  const after = durationMs(is.max_key_age) ?? Number.POSITIVE_INFINITY;
  return [
    ...(is.mfa_required && !was.mfa_required ? (['mfa'] as const) : []),
    ...(is.sso_required && !was.sso_required ? (['sso'] as const) : []),
    ...(after < before ? (['age'] as const) : []),
  ];
}
