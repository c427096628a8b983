import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { App, Select, Space } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas } from '../../api/client';
import { useMay, useMe, usePrincipalName } from '../data';
import { Listing } from '../Listing';
import { mayGive } from '../may';
import { compact } from '../search';
import { Badge, ConfirmByName, Copyable, DataTable, MayButton, Outcome, PageHead, SectionHead, Time } from '../ui';
import { BindDialog, BindingEnd, usePrincipalOptions } from './roles/BindDialog';
import { ScopeText, useRoleName, useRoles } from './roles/names';
import { RoleDialog } from './roles/RoleDialog';

const route = getRouteApi('/roles');

type Role = Schemas['CustomRole'];
type Binding = Schemas['RoleBinding'];

/** Roles, and who has which of them in which part of the organisation. */
export function Roles() {
  const { t } = useTranslation();
  return (
    <>
      <PageHead title={t('roles.title')} lead={t('roles.lead')} />
      <Bindings />
      <OwnRoles />
    </>
  );
}

type OpenBinding = { what: 'bind' } | { what: 'end' | 'unbind'; binding: Binding };

function Bindings() {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const mayWrite = useMay('role:write');
  const me = useMe();
  const roles = useRoles();
  const roleName = useRoleName();
  const nameOf = usePrincipalName();
  const principals = usePrincipalOptions();
  const [open, setOpen] = useState<OpenBinding>();
  const close = () => setOpen(undefined);
  const query = useQuery({
    queryKey: ['role-bindings', search],
    queryFn: ({ signal }) =>
      got(
        api.GET('/v1/role-bindings', {
          params: { query: { principal_id: search.principal, page_token: search.page } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
  /** Nobody takes what they could not give. */
  const mayTouch = (b: Binding) => {
    const role = roles.data?.find((r) => r.id === b.role);
    return mayWrite && me.data !== undefined && role !== undefined && mayGive(me.data, role.permissions, b.scope);
  };
  const refresh = async () => {
    await queries.invalidateQueries({ queryKey: ['role-bindings'] });
    await queries.invalidateQueries({ queryKey: ['me'] });
    await queries.invalidateQueries({ queryKey: ['service-accounts'] });
  };
  return (
    <section>
      <SectionHead
        title={t('bindings.title')}
        lead={t('bindings.lead')}
        actions={
          <MayButton may={mayWrite} type="primary" onClick={() => setOpen({ what: 'bind' })} data-testid="bind">
            {t('bindings.create')}
          </MayButton>
        }
      />
      <search className="filters">
        <Select
          allowClear
          className="filter wide"
          aria-label={t('bindings.principal')}
          placeholder={t('bindings.anybody')}
          value={search.principal}
          showSearch={{ optionFilterProp: 'label' }}
          options={principals}
          onChange={(principal) => void navigate({ search: compact({ principal }) })}
        />
      </search>
      <Listing<Binding>
        query={query}
        label={t('bindings.title')}
        empty={t('bindings.empty')}
        onClear={search.principal ? () => void navigate({ search: {} }) : undefined}
        page={search.page}
        onPage={(page) => void navigate({ search: compact({ ...search, page }) })}
        columns={[
          {
            title: t('bindings.principal'),
            render: (_, b) => (
              <>
                <span title={b.principal_id}>{nameOf(b.principal_id)}</span>
                {b.principal_id.startsWith('sa_') && <div className="muted">{t('actor.service_account')}</div>}
              </>
            ),
          },
          { title: t('account.role'), render: (_, b) => <span title={b.role}>{roleName(b.role)}</span> },
          { title: t('bindings.where'), render: (_, b) => <ScopeText scope={b.scope} /> },
          {
            title: t('keys.expires'),
            render: (_, b) => (
              <>
                <Time at={b.expires_at} />
                {b.expires_at && Date.parse(b.expires_at) <= Date.now() && (
                  <div>
                    <Badge tone="bad">{t('key_state.expired')}</Badge>
                  </div>
                )}
              </>
            ),
          },
          { title: t('bindings.by'), render: (_, b) => <span title={b.created_by}>{nameOf(b.created_by)}</span> },
          {
            title: t('field.actions'),
            className: 'stays',
            render: (_, b) => (
              <Space>
                <MayButton
                  may={mayTouch(b)}
                  size="small"
                  aria-label={t('bindings.end_of', { name: nameOf(b.principal_id), role: roleName(b.role) })}
                  onClick={() => setOpen({ what: 'end', binding: b })}
                >
                  {t('bindings.end')}
                </MayButton>
                <MayButton
                  may={mayTouch(b)}
                  size="small"
                  danger
                  aria-label={t('bindings.remove', { name: nameOf(b.principal_id), role: roleName(b.role) })}
                  onClick={() => setOpen({ what: 'unbind', binding: b })}
                >
                  {t('action.remove')}
                </MayButton>
              </Space>
            ),
          },
        ]}
      />
      {open?.what === 'bind' && <BindDialog principal={search.principal} onClose={close} onDone={refresh} />}
      {open?.what === 'end' && <BindingEnd binding={open.binding} onClose={close} onDone={refresh} />}
      {open?.what === 'unbind' && (
        <ConfirmByName
          open
          title={t('bindings.remove', { name: nameOf(open.binding.principal_id), role: roleName(open.binding.role) })}
          text={t('bindings.remove_text')}
          name={nameOf(open.binding.principal_id)}
          action={t('action.remove')}
          onClose={close}
          run={async () => {
            const { binding } = open;
            await got(
              api.DELETE('/v1/role-bindings/{id}', {
                params: { path: { id: binding.id }, header: { 'If-Match': etag(binding) } },
              }),
            );
            void message.success(t('bindings.removed'));
            await refresh();
          }}
        />
      )}
    </section>
  );
}

/** Few are shown, many are counted and shown when asked for. */
function Permissions({ of: { permissions } }: { of: Role }) {
  const { t } = useTranslation();
  const words = <span className="words">{permissions.join(' ')}</span>;
  if (permissions.length === 0) {
    return <span className="muted">{t('roles.nothing')}</span>;
  }
  if (permissions.length <= 5) {
    return words;
  }
  return (
    <details>
      <summary>{t('roles.count', { n: String(permissions.length) })}</summary>
      {words}
    </details>
  );
}

type OpenRole = { what: 'create' } | { what: 'edit' | 'delete'; role: Role };

function OwnRoles() {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const me = useMe();
  const mayWrite = useMay('role:write');
  const roleName = useRoleName();
  const query = useRoles();
  const [open, setOpen] = useState<OpenRole>();
  const close = () => setOpen(undefined);
  const mayTouch = (r: Role) =>
    mayWrite && !r.built_in && me.data !== undefined && mayGive(me.data, r.permissions, { kind: 'tenant' });
  return (
    <section>
      <SectionHead
        title={t('roles.list')}
        lead={t('roles.list_lead')}
        actions={
          <MayButton may={mayWrite} onClick={() => setOpen({ what: 'create' })} data-testid="create-role">
            {t('roles.create')}
          </MayButton>
        }
      />
      <Outcome query={query}>
        {(items) => (
          <DataTable<Role>
            label={t('roles.list')}
            rowKey="id"
            dataSource={items}
            pagination={false}
            columns={[
              {
                title: t('field.name'),
                render: (_, r) => (
                  <>
                    {roleName(r.id)} {r.built_in && <Badge>{t('roles.built_in')}</Badge>}
                    {r.description && <div className="muted">{r.description}</div>}
                    {!r.built_in && (
                      <div>
                        <Copyable text={r.id} what={t('field.id')} />
                      </div>
                    )}
                  </>
                ),
              },
              {
                title: t('roles.permits'),
                render: (_, r) => <Permissions of={r} />,
              },
              {
                title: t('field.actions'),
                className: 'stays',
                render: (_, r) => (
                  <Space>
                    <MayButton
                      may={mayTouch(r)}
                      size="small"
                      aria-label={t('roles.edit', { name: r.name })}
                      onClick={() => setOpen({ what: 'edit', role: r })}
                    >
                      {t('action.edit')}
                    </MayButton>
                    <MayButton
                      may={mayTouch(r)}
                      size="small"
                      danger
                      aria-label={t('roles.delete', { name: r.name })}
                      onClick={() => setOpen({ what: 'delete', role: r })}
                    >
                      {t('action.delete')}
                    </MayButton>
                  </Space>
                ),
              },
            ]}
          />
        )}
      </Outcome>
      {open?.what === 'create' && <RoleDialog onClose={close} />}
      {open?.what === 'edit' && <RoleDialog role={open.role} onClose={close} />}
      {open?.what === 'delete' && (
        <ConfirmByName
          open
          title={t('roles.delete', { name: open.role.name })}
          text={t('roles.delete_text')}
          name={open.role.name}
          action={t('action.delete')}
          onClose={close}
          run={async () => {
            const { role } = open;
            await got(
              api.DELETE('/v1/roles/{id}', { params: { path: { id: role.id }, header: { 'If-Match': etag(role) } } }),
            );
            void message.success(t('roles.deleted', { name: role.name }));
            await queries.invalidateQueries({ queryKey: ['roles'] });
          }}
        />
      )}
    </section>
  );
}
