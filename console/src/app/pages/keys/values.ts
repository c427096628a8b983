import type { Schemas } from '../../../api/client';
import { durationMs } from '../../../lib/duration';
import { fromLocalInput, toLocalInput } from '../../localTime';
import { compact } from '../../search';

/** Between the forms of keys and workload identities and what the API takes. */

export interface ScopeValues {
  namespace_id?: string;
  permissions?: Schemas['KeyPermission'][];
  topics?: string[];
  groups?: string[];
  cidrs?: string[];
  expires_at?: string;
}

export interface KeyValues {
  name: string;
  description?: string;
  owner_id?: string;
  scopes?: ScopeValues[];
  control_role?: Schemas['ControlRole'];
  expires_at?: string;
  allowed_cidrs?: string[];
  secret?: string;
  disabled?: boolean;
}

const some = (l: string[] | undefined) => (l && l.length > 0 ? l : undefined);

export function toScopes(scopes: ScopeValues[] | undefined): Schemas['ApiKeyScope'][] {
  return (scopes ?? [])
    .filter((s) => s?.namespace_id)
    .map((s) =>
      compact({
        namespace_id: s.namespace_id as string,
        permissions: s.permissions ?? [],
        topics: some(s.topics),
        groups: some(s.groups),
        cidrs: some(s.cidrs),
        expires_at: fromLocalInput(s.expires_at),
      }),
    );
}

export function fromScopes(scopes: readonly Schemas['ApiKeyScope'][]): ScopeValues[] {
  return scopes.map((s) => ({ ...s, expires_at: toLocalInput(s.expires_at) }));
}

export function toCreate(v: KeyValues): Schemas['ApiKeyCreate'] {
  return compact({
    name: v.name?.trim() ?? '',
    description: v.description?.trim(),
    owner_id: v.owner_id,
    scopes: toScopes(v.scopes),
    control_role: v.control_role,
    expires_at: fromLocalInput(v.expires_at),
    allowed_cidrs: some(v.allowed_cidrs),
    secret: v.secret,
  });
}

export function toUpdate(v: KeyValues): Schemas['ApiKeyUpdate'] {
  return {
    name: v.name.trim(),
    description: v.description?.trim() ?? '',
    scopes: toScopes(v.scopes),
    allowed_cidrs: v.allowed_cidrs ?? [],
    expires_at: fromLocalInput(v.expires_at) ?? null,
    disabled: v.disabled ?? false,
  };
}

/** When a key that is made now ends at the latest, where the tenant limits their age. */
export function latestEnd(maxAge: string | undefined, now = Date.now()): string | undefined {
  const ms = durationMs(maxAge);
  return ms === undefined ? undefined : new Date(now + ms).toISOString();
}

/** When a key ends, by its own date or by the age that the tenant allows. The server shows the earlier one of both. */
export function endOf(
  key: Pick<Schemas['ApiKey'], 'created_at' | 'expires_at' | 'workload_identity_id'>,
  maxAge: string | undefined,
): { at: string; by: 'key' | 'age' } | undefined {
  // A workload identity's key has a secret that nobody knows; its age is no danger.
  const byAge = key.workload_identity_id ? undefined : latestEnd(maxAge, Date.parse(key.created_at));
  if (byAge && (!key.expires_at || Date.parse(byAge) <= Date.parse(key.expires_at))) {
    return { at: byAge, by: 'age' };
  }
  return key.expires_at ? { at: key.expires_at, by: 'key' } : undefined;
}

/** Whether a key can be rotated: one that lives, and has no successor yet. */
export function canRotate(
  key: Pick<Schemas['ApiKey'], 'state' | 'replaced_by_key_id' | 'workload_identity_id'>,
): boolean {
  return (key.state === 'active' || key.state === 'disabled') && !key.replaced_by_key_id && !key.workload_identity_id;
}

/** What a secret of one's own looks like; how hard it is to guess, the server tells. */
export const broughtSecret = /^(?!sls_)[A-Za-z0-9_+/=.-]{32,128}$/;
