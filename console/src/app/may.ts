import type { Schemas } from '../api/client';

/** A part of the tenant that an act is about; none: the tenant as a whole. */
export interface Part {
  ns?: string;
  topic?: string;
  group?: string;
}

type Rights = Pick<Schemas['Me'], 'permissions' | 'bindings'>;
type Right = Schemas['MeRight'];

/** The scopes besides the whole tenant in which a permission means something, by its first word; as the server has it. */
const kindsOf: Record<string, readonly Schemas['RoleScopeKind'][]> = {
  namespace: ['namespace'],
  acl: ['namespace'],
  quota: ['namespace'],
  key: ['namespace', 'topic', 'group'],
  topic: ['namespace', 'topic'],
  group: ['namespace', 'group'],
  message: ['namespace', 'topic', 'group'],
};

/** Whether a permission means something in a scope of this kind. */
export function meansSomething(permission: string, kind: Schemas['RoleScopeKind']): boolean {
  return kind === 'tenant' || (kindsOf[permission.split(':')[0] ?? '']?.includes(kind) ?? false);
}

/** Whether a name fits a pattern: a name, a beginning with a `*` after it, or `*`. */
export function fits(pattern: string, name: string): boolean {
  return pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : pattern === name;
}

/**
 * Whether the caller may do in a part of the tenant what needs this permission, by their role or by a binding that has
 * not ended; the same answer as the server's. In a namespace without a topic or group a right to some of them is
 * enough; so is, for lists of namespaces and for keys of one's own, a right in any namespace.
 */
export function mayDo(me: Rights, permission: string, part: Part = {}, now = Date.now()): boolean {
  return me.permissions.includes(permission) || me.bindings.some((b) => covers(b, permission, part, now));
}

function covers(b: Right, permission: string, part: Part, now: number): boolean {
  const { kind, namespace_id, pattern = '*' } = b.scope;
  if (!b.permissions.includes(permission) || (b.expires_at && Date.parse(b.expires_at) <= now)) {
    return false;
  }
  if (kind === 'tenant') {
    return true;
  }
  const some = part.topic === undefined && part.group === undefined;
  if (part.ns === undefined ? !anywhere(permission) : part.ns !== namespace_id) {
    return false;
  }
  if (permission === 'namespace:read') {
    return some;
  }
  if (!meansSomething(permission, kind)) {
    return false;
  }
  if (kind === 'namespace' || some) {
    return true;
  }
  const name = kind === 'topic' ? part.topic : part.group;
  return name !== undefined && fits(pattern, name);
}

function anywhere(permission: string): boolean {
  return permission === 'namespace:read' || permission.startsWith('key:');
}

/** Whether all of `inner` lies in `outer`. */
export function contains(outer: Schemas['RoleScope'], inner: Schemas['RoleScope']): boolean {
  if (outer.kind === 'tenant') {
    return true;
  }
  if (outer.namespace_id !== inner.namespace_id) {
    return false;
  }
  if (outer.kind === 'namespace') {
    return inner.kind !== 'tenant';
  }
  return outer.kind === inner.kind && patternContains(outer.pattern ?? '*', inner.pattern ?? '*');
}

function patternContains(outer: string, inner: string): boolean {
  return outer.endsWith('*') ? inner.replace(/\*$/, '').startsWith(outer.slice(0, -1)) : outer === inner;
}

/** Whether the caller may give or take a role with these permissions there: nobody gives more than they have. */
export function mayGive(
  me: Rights,
  permissions: readonly string[],
  scope: Schemas['RoleScope'],
  now = Date.now(),
): boolean {
  const lives = me.bindings.filter((b) => !b.expires_at || Date.parse(b.expires_at) > now);
  return permissions.every(
    (p) => me.permissions.includes(p) || lives.some((b) => b.permissions.includes(p) && contains(b.scope, scope)),
  );
}
