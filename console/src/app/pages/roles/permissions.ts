import type { Schemas } from '../../../api/client';
import { meansSomething } from '../../may';

type Permission = Schemas['Permission'];

/** Permissions by the kind of object that they are about, in alphabetical order. */
export function families(
  all: readonly Permission[],
): { family: string; read: Permission | undefined; write: Permission | undefined }[] {
  const names = [...new Set(all.map((p) => p.split(':')[0] as string))].sort();
  return names.map((family) => ({
    family,
    read: all.find((p) => p === `${family}:read`),
    write: all.find((p) => p === `${family}:write`),
  }));
}

/** What of a role counts in a part of this kind; the rest belongs to the organisation as a whole. */
export function counting(permissions: readonly Permission[], kind: Schemas['RoleScopeKind']): Permission[] {
  return permissions.filter((p) => meansSomething(p, kind));
}
