import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { App, Select, Space } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas } from '../../api/client';
import { useMay } from '../data';
import { Listing } from '../Listing';
import { type AccessSearch, aclResources, compact } from '../search';
import { Badge, ConfirmByName, Copyable, MayButton, PageHead, Phase, Time } from '../ui';
import { RuleDialog, usePrincipals } from './access/RuleDialog';
import { Tester } from './access/Tester';

const route = getRouteApi('/n/$ns/access');

type Open = { what: 'create' } | { what: 'edit' | 'delete'; rule: Schemas['Acl'] };

/** The rules of a namespace. */
export function Access() {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const { ns } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const mayWrite = useMay('acl:write', { ns });
  const principals = usePrincipals();
  const [open, setOpen] = useState<Open>();
  const close = () => setOpen(undefined);
  const query = useQuery({
    queryKey: ['acls', ns, search],
    queryFn: ({ signal }) =>
      got(
        api.GET('/v1/namespaces/{ns}/acls', {
          params: {
            path: { ns },
            query: { principal: search.principal, resource: search.resource, page_token: search.page },
          },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
  const show = (next: AccessSearch) => void navigate({ search: compact({ ...next, page: undefined }), replace: true });
  const nameOf = (id: string) => principals.all.find((p) => p.value === id)?.label ?? id;
  return (
    <>
      <PageHead
        title={t('access.title')}
        lead={t('access.lead')}
        actions={
          <MayButton
            type="primary"
            may={mayWrite}
            onClick={() => setOpen({ what: 'create' })}
            data-testid="create-rule"
          >
            {t('access.create')}
          </MayButton>
        }
      />
      <search className="filters">
        <Select
          allowClear
          className="filter wide"
          aria-label={t('access.principal')}
          placeholder={t('access.any_principal')}
          value={search.principal}
          showSearch={{ optionFilterProp: 'label' }}
          options={principals.all}
          onChange={(principal) => show({ ...search, principal })}
        />
        <Select
          allowClear
          className="filter"
          aria-label={t('access.resource')}
          placeholder={t('access.any_resource')}
          value={search.resource}
          options={aclResources.map((r) => ({ value: r, label: t(`acl_resource.${r}`) }))}
          onChange={(resource) => show({ ...search, resource })}
        />
      </search>
      <Listing<Schemas['Acl']>
        query={query}
        label={t('access.title')}
        empty={t('access.empty')}
        onClear={search.principal || search.resource ? () => void navigate({ search: {} }) : undefined}
        page={search.page}
        onPage={(page) => void navigate({ search: compact({ ...search, page }) })}
        columns={[
          {
            title: t('access.effect'),
            render: (_, r) => <Badge tone={r.effect === 'allow' ? 'good' : 'bad'}>{t(`acl_effect.${r.effect}`)}</Badge>,
          },
          {
            title: t('access.principal'),
            render: (_, r) => (
              <>
                {nameOf(r.principal)}
                {r.description && <div className="muted">{r.description}</div>}
              </>
            ),
          },
          {
            title: t('access.what'),
            render: (_, r) => (
              <>
                {r.operations.map((o) => t(`permission.${o}`)).join(', ')}
                <div>
                  {t(`acl_resource.${r.resource}`)} {r.resource !== 'namespace' && <code>{r.pattern}</code>}
                </div>
              </>
            ),
          },
          {
            title: t('keys.cidrs'),
            render: (_, r) => (r.cidrs.length > 0 ? <code>{r.cidrs.join(' ')}</code> : t('access.any_address')),
          },
          {
            title: t('keys.expires'),
            render: (_, r) => (
              <>
                <Time at={r.expires_at} />
                {r.expires_at && Date.parse(r.expires_at) <= Date.now() && (
                  <div>
                    <Badge tone="bad">{t('key_state.expired')}</Badge>
                  </div>
                )}
              </>
            ),
          },
          {
            title: t('field.status'),
            render: (_, r) => (
              <>
                <Phase status={r.status} /> <Copyable text={r.id} what={t('field.id')} />
              </>
            ),
          },
          {
            title: t('field.actions'),
            className: 'stays',
            render: (_, r) => (
              <Space>
                <MayButton
                  size="small"
                  may={mayWrite}
                  aria-label={t('access.edit_one', { id: r.id })}
                  onClick={() => setOpen({ what: 'edit', rule: r })}
                >
                  {t('action.edit')}
                </MayButton>
                <MayButton
                  size="small"
                  danger
                  may={mayWrite}
                  aria-label={t('access.delete', { id: r.id })}
                  onClick={() => setOpen({ what: 'delete', rule: r })}
                >
                  {t('action.delete')}
                </MayButton>
              </Space>
            ),
          },
        ]}
      />
      <h2>{t('access.test')}</h2>
      <p className="muted">{t('access.test_lead')}</p>
      <Tester ns={ns} />
      {open?.what === 'create' && <RuleDialog ns={ns} onClose={close} />}
      {open?.what === 'edit' && <RuleDialog ns={ns} rule={open.rule} onClose={close} />}
      {open?.what === 'delete' && (
        <ConfirmByName
          open
          title={t('access.delete', { id: open.rule.id })}
          text={t('access.delete_text')}
          name={open.rule.pattern}
          action={t('action.delete')}
          onClose={close}
          run={async () => {
            const { rule } = open;
            await got(
              api.DELETE('/v1/namespaces/{ns}/acls/{id}', {
                params: { path: { ns, id: rule.id }, query: { wait: '10s' }, header: { 'If-Match': etag(rule) } },
              }),
            );
            void message.success(t('access.deleted'));
            await queries.invalidateQueries({ queryKey: ['acls', ns] });
            await queries.invalidateQueries({ queryKey: ['access', ns] });
          }}
        />
      )}
    </>
  );
}
