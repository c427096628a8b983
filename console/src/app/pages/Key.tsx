import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { Alert, Descriptions, Space } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../../api/client';
import { useMay, useMe, useNamespaces, usePrincipalName } from '../data';
import { Badge, Copyable, DataTable, MayButton, Nothing, Outcome, PageHead, Phase, Time } from '../ui';
import { EditKey } from './keys/EditKey';
import { DeleteKey, RevokeKey } from './keys/EndKey';
import { KeyToken } from './keys/KeyToken';
import { RotateKey } from './keys/RotateKey';
import { SecretOnce } from './keys/Secret';
import { KeyEnd, KeyState, Operation } from './keys/show';
import { canRotate } from './keys/values';

const route = getRouteApi('/api-keys/$id');

/** One key: what it may, what it was used for, and all that can be done with it. */
export function Key() {
  const { t } = useTranslation();
  const { id } = route.useParams();
  const query = useQuery({
    queryKey: ['keys', 'one', id],
    queryFn: ({ signal }) => got(api.GET('/v1/api-keys/{id}', { params: { path: { id } }, signal })),
  });
  const key = query.data;
  return (
    <>
      <p className="crumb">
        <Link to="/api-keys">{t('keys.title')}</Link>
      </p>
      <PageHead title={key?.name ?? id} lead={key?.description} actions={key && <Actions apiKey={key} />} />
      <Outcome query={query}>
        {(k) => (
          <>
            <Notes apiKey={k} />
            <Facts apiKey={k} />
            <h2>{t('keys.scopes')}</h2>
            <Scopes scopes={k.scopes} />
          </>
        )}
      </Outcome>
    </>
  );
}

function Actions({ apiKey }: { apiKey: Schemas['ApiKey'] }) {
  const { t } = useTranslation();
  const navigate = route.useNavigate();
  // The key of a workload identity is changed with that identity only.
  const may = useMay('key:write') && !apiKey.workload_identity_id;
  const [open, setOpen] = useState<'edit' | 'rotate' | 'token' | 'revoke' | 'delete'>();
  const [fresh, setFresh] = useState<Schemas['ApiKeyWithSecret']>();
  const close = () => setOpen(undefined);
  const lives = may && apiKey.state !== 'revoked';
  const me = useMe();
  const own = me.data?.type === 'user' && me.data.id === apiKey.owner_id;
  return (
    <Space wrap>
      <MayButton may={lives} onClick={() => setOpen('edit')}>
        {t('action.edit')}
      </MayButton>
      <MayButton may={lives && canRotate(apiKey)} onClick={() => setOpen('rotate')}>
        {t('keys.rotate')}
      </MayButton>
      <MayButton may={own && apiKey.state === 'active' && apiKey.scopes.length > 0} onClick={() => setOpen('token')}>
        {t('key_token.make')}
      </MayButton>
      <MayButton may={lives} danger onClick={() => setOpen('revoke')}>
        {t('keys.revoke')}
      </MayButton>
      <MayButton may={may} danger onClick={() => setOpen('delete')}>
        {t('action.delete')}
      </MayButton>
      {open === 'edit' && <EditKey apiKey={apiKey} onClose={close} />}
      {open === 'rotate' && <RotateKey apiKey={apiKey} onClose={close} onMade={setFresh} />}
      {open === 'token' && <KeyToken apiKey={apiKey} onClose={close} />}
      {open === 'revoke' && <RevokeKey apiKey={apiKey} onClose={close} />}
      {open === 'delete' && (
        <DeleteKey apiKey={apiKey} onClose={close} onDone={() => void navigate({ to: '/api-keys' })} />
      )}
      {fresh && (
        <SecretOnce
          apiKey={fresh}
          onClose={() => {
            setFresh(undefined);
            void navigate({ to: '/api-keys/$id', params: { id: fresh.id } });
          }}
        />
      )}
    </Space>
  );
}

/** What is out of the ordinary about the key, and what to do. */
function Notes({ apiKey: k }: { apiKey: Schemas['ApiKey'] }) {
  const { t } = useTranslation();
  return (
    <>
      {k.revoked_reason === 'leaked' && (
        <Alert
          type="error"
          showIcon
          className="gap"
          title={t('keys.leaked')}
          description={
            <>
              {t('keys.leaked_text')}{' '}
              <Link to="/audit" search={{ actor: k.id }}>
                {t('nav.audit')}
              </Link>
            </>
          }
        />
      )}
      {k.replaced_by_key_id && (
        <Alert
          type={k.state === 'active' ? 'warning' : 'info'}
          showIcon
          className="gap"
          title={t(k.state === 'active' ? 'keys.overlap_now' : 'keys.replaced')}
          description={
            <>
              {k.state === 'active' && (
                <p>
                  {t('keys.overlap_until')} <Time at={k.expires_at} />
                </p>
              )}
              <Link to="/api-keys/$id" params={{ id: k.replaced_by_key_id }}>
                {t('keys.new_one')} {k.replaced_by_key_id}
              </Link>
            </>
          }
        />
      )}
      {k.workload_identity_id && (
        <Alert
          type="info"
          showIcon
          className="gap"
          title={t('keys.of_workload')}
          description={
            <>
              {t('keys.of_workload_text')} <Link to="/service-accounts">{t('workloads.title')}</Link>
            </>
          }
        />
      )}
    </>
  );
}

function Facts({ apiKey: k }: { apiKey: Schemas['ApiKey'] }) {
  const { t } = useTranslation();
  const nameOf = usePrincipalName();
  const rows = [
    { key: 'id', label: t('keys.id'), children: <Copyable text={k.id} what={t('keys.id')} /> },
    { key: 'state', label: t('keys.state'), children: <KeyState apiKey={k} /> },
    { key: 'status', label: t('keys.brokers'), children: <Phase status={k.status} /> },
    ...(k.hint ? [{ key: 'hint', label: t('keys.hint'), children: <code>{`…${k.hint}`}</code> }] : []),
    {
      key: 'owner',
      label: t('keys.owner'),
      children: <span title={k.owner_id}>{nameOf(k.owner_id)}</span>,
    },
    {
      key: 'role',
      label: t('keys.control_role'),
      children: k.control_role ? t(`role.${k.control_role}`) : t('state.none'),
    },
    {
      key: 'cidrs',
      label: t('keys.cidrs'),
      children: k.allowed_cidrs.length > 0 ? <code>{k.allowed_cidrs.join(' ')}</code> : t('access.any_address'),
    },
    { key: 'expires', label: t('keys.expires'), children: <KeyEnd apiKey={k} /> },
    { key: 'used', label: t('keys.last_used'), children: <Time at={k.last_used?.at ?? k.last_used_at} /> },
    ...(k.last_used?.address
      ? [{ key: 'address', label: t('keys.used_from'), children: <code>{k.last_used.address}</code> }]
      : []),
    ...(k.last_used?.operation
      ? [{ key: 'operation', label: t('keys.used_for'), children: <Operation of={k.last_used} /> }]
      : []),
    { key: 'created', label: t('field.created'), children: <Time at={k.created_at} /> },
    ...(k.revoked_at ? [{ key: 'revoked', label: t('key_state.revoked'), children: <Time at={k.revoked_at} /> }] : []),
    ...(k.replaces_key_id
      ? [
          {
            key: 'replaces',
            label: t('keys.replaces'),
            children: (
              <Link to="/api-keys/$id" params={{ id: k.replaces_key_id }}>
                <code>{k.replaces_key_id}</code>
              </Link>
            ),
          },
        ]
      : []),
  ];
  return <Descriptions bordered size="small" column={{ xs: 1, lg: 2 }} items={rows} />;
}

function Scopes({ scopes }: { scopes: Schemas['ApiKeyScope'][] }) {
  const { t } = useTranslation();
  const namespaces = useNamespaces();
  if (scopes.length === 0) {
    return <Nothing text={t('keys.no_scopes')} />;
  }
  const patterns = (l: string[] | undefined) =>
    l && l.length > 0 ? <code>{l.join(' ')}</code> : <span className="muted">{t('keys.all')}</span>;
  return (
    <DataTable<Schemas['ApiKeyScope']>
      label={t('keys.scopes')}
      rowKey={(s) => JSON.stringify(s)}
      dataSource={scopes}
      pagination={false}
      columns={[
        {
          title: t('nav.namespace'),
          render: (_, s) => (
            <span title={s.namespace_id}>
              {namespaces.data?.find((n) => n.id === s.namespace_id)?.name ?? s.namespace_id}
            </span>
          ),
        },
        {
          title: t('keys.permissions'),
          render: (_, s) => (
            <Space wrap size={4}>
              {s.permissions.map((p) => (
                <Badge key={p}>{t(`permission.${p}`)}</Badge>
              ))}
            </Space>
          ),
        },
        { title: t('keys.topics'), render: (_, s) => patterns(s.topics) },
        { title: t('keys.groups'), render: (_, s) => patterns(s.groups) },
        {
          title: t('keys.cidrs'),
          render: (_, s) => (s.cidrs && s.cidrs.length > 0 ? <code>{s.cidrs.join(' ')}</code> : t('keys.cidrs_of_key')),
        },
        {
          title: t('keys.expires'),
          render: (_, s) => (s.expires_at ? <Time at={s.expires_at} /> : t('keys.with_key')),
        },
      ]}
    />
  );
}
