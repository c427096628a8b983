import { QueryClient, type UseQueryResult, useQuery } from '@tanstack/react-query';
import { useCallback } from 'react';
import { useTranslation } from 'react-i18next';
import { allPages, api, got, type Schemas } from '../api/client';
import { ApiProblem } from '../api/problem';
import { tagOf } from '../i18n';
import { groupTopic } from '../lib/topicName';
import { mayDo, type Part } from './may';

export function newQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        retry: (times, err) => times < 2 && err instanceof ApiProblem && err.retriable,
        retryDelay: (times, err) =>
          err instanceof ApiProblem && err.retryAfter !== undefined
            ? Math.min(err.retryAfter * 1000, 10_000)
            : 500 * 2 ** times,
        refetchOnWindowFocus: false,
      },
      mutations: { retry: false },
    },
  });
}

export function useLocale(): string {
  return tagOf(useTranslation().i18n.language);
}

/** How topics are called on the page: those that the system makes for a group in words, others by their name. */
export function useTopicText(): (topic: string) => string {
  const { t } = useTranslation();
  return useCallback(
    (topic) => {
      const of = groupTopic(topic);
      return of ? t(`topic_of.${of.kind}`, { group: of.group }) : topic;
    },
    [t],
  );
}

export function useMe(): UseQueryResult<Schemas['Me']> {
  return useQuery({ queryKey: ['me'], queryFn: ({ signal }) => got(api.GET('/v1/me', { signal })), staleTime: 60_000 });
}

/**
 * Whether the user may do something in a part of the tenant, by role or by binding; no until it is known. What they may
 * not is not offered; the server decides in any case.
 */
export function useMay(permission: string, part?: Part): boolean {
  const me = useMe();
  return me.data !== undefined && mayDo(me.data, permission, part);
}

/** The organisation of the caller, for whoever may look at it. */
export function useTenant(): UseQueryResult<Schemas['Tenant']> {
  return useQuery({
    queryKey: ['tenant'],
    enabled: useMay('tenant:read'),
    queryFn: ({ signal }) => got(api.GET('/v1/tenant', { signal })),
    staleTime: 30_000,
  });
}

/** All namespaces, for the switch and for selectors, which must know more than the first page. */
export function useNamespaces(): UseQueryResult<Schemas['Namespace'][]> {
  return useQuery({
    queryKey: ['namespaces', 'all'],
    enabled: useMay('namespace:read'),
    queryFn: ({ signal }) =>
      allPages((page_token) =>
        got(api.GET('/v1/namespaces', { params: { query: { page_size: 200, page_token } }, signal })),
      ),
    staleTime: 30_000,
  });
}

/** The people of the organisation, for whoever may see them. */
export function useMembers(): UseQueryResult<Schemas['Member'][]> {
  return useQuery({
    queryKey: ['members'],
    enabled: useMay('member:read'),
    queryFn: ({ signal }) =>
      allPages((page_token) => got(api.GET('/v1/members', { params: { query: { page_token } }, signal }))),
  });
}

export function useServiceAccounts(): UseQueryResult<Schemas['ServiceAccount'][]> {
  return useQuery({
    queryKey: ['service-accounts'],
    enabled: useMay('service_account:read'),
    queryFn: ({ signal }) =>
      allPages((page_token) => got(api.GET('/v1/service-accounts', { params: { query: { page_token } }, signal }))),
  });
}

/** What a person or a service account is called; its id, where the user may not see more. */
export function usePrincipalName(): (id: string) => string {
  const me = useMe();
  const members = useMembers();
  const accounts = useServiceAccounts();
  return (id) =>
    members.data?.find((m) => m.id === id)?.email ??
    accounts.data?.find((a) => a.id === id)?.name ??
    (id === me.data?.id ? (me.data.email ?? me.data.name) : id);
}

const lastKey = 'sluice.namespace';

export function lastNamespace(): string | undefined {
  return localStorage.getItem(lastKey) ?? undefined;
}

export function rememberNamespace(id: string): void {
  localStorage.setItem(lastKey, id);
}

/** Saves what a call with a session answers as a file. The address of the file never holds a token. */
export async function saveAnswer(call: Promise<{ data?: string; error?: unknown; response: Response }>, name: string) {
  saveText(await got(call), name, 'text/csv;charset=utf-8');
}

export function saveText(text: string, name: string, type: string) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const a = document.createElement('a');
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
