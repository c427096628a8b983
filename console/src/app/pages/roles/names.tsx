import { useQuery } from '@tanstack/react-query';
import { useTranslation } from 'react-i18next';
import { allPages, api, got, type Schemas } from '../../../api/client';
import { useMay, useNamespaces } from '../../data';

/** All roles, built in and own, for whoever may see them. */
export function useRoles() {
  return useQuery({
    queryKey: ['roles'],
    enabled: useMay('role:read'),
    queryFn: ({ signal }) =>
      allPages((page_token) => got(api.GET('/v1/roles', { params: { query: { page_token } }, signal }))),
  });
}

const builtIn = ['owner', 'admin', 'developer', 'viewer', 'billing', 'none'] as const;

export function isBuiltIn(role: string): role is Schemas['Role'] {
  return (builtIn as readonly string[]).includes(role);
}

/** What a role is called: built-in ones in the user's language, own ones by their name. */
export function useRoleName(): (role: string) => string {
  const { t } = useTranslation();
  const roles = useRoles();
  return (role) => (isBuiltIn(role) ? t(`role.${role}`) : (roles.data?.find((r) => r.id === role)?.name ?? role));
}

/** The part of the organisation that a binding is for. */
export function ScopeText({ scope }: { scope: Schemas['RoleScope'] }) {
  const { t } = useTranslation();
  const namespaces = useNamespaces();
  if (scope.kind === 'tenant') {
    return <>{t('roles.in_tenant')}</>;
  }
  const name = namespaces.data?.find((n) => n.id === scope.namespace_id)?.name ?? scope.namespace_id;
  return (
    <>
      {scope.kind !== 'namespace' && (
        <>
          {t(`acl_resource.${scope.kind}`)} <code>{scope.pattern}</code>{' '}
        </>
      )}
      {t('roles.in_namespace')} <span title={scope.namespace_id}>{name}</span>
    </>
  );
}
