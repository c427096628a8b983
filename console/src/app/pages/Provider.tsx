import { useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { Alert, App, Button, Descriptions, Form, Modal, Select, Space } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas } from '../../api/client';
import { type ApiProblem, asProblem } from '../../api/problem';
import { useMay, useMembers, useTenant } from '../data';
import {
  Badge,
  ConfirmByName,
  Copyable,
  DataTable,
  MayButton,
  Nothing,
  Outcome,
  PageHead,
  ProblemView,
  Time,
} from '../ui';
import { useSave } from '../useSave';
import { ProviderDialog } from './security/ProviderDialog';
import { Enabled } from './security/Providers';

const route = getRouteApi('/identity-providers/$id');

type Identity = Schemas['IdentityProvider'];

/** One identity provider, and the steps until people sign in there. */
export function Provider() {
  const { t } = useTranslation();
  const { id } = route.useParams();
  const query = useQuery({
    queryKey: ['identity-providers', id],
    queryFn: ({ signal }) => got(api.GET('/v1/identity-providers/{id}', { params: { path: { id } }, signal })),
  });
  const provider = query.data;
  return (
    <>
      <p className="crumb">
        <Link to="/security">{t('security.title')}</Link>
      </p>
      <PageHead
        title={provider?.name ?? id}
        tags={provider && <Enabled provider={provider} />}
        actions={provider && <Actions provider={provider} />}
      />
      <Outcome query={query}>
        {(p) => (
          <>
            {!p.owner_approved && (
              <Alert
                type="warning"
                showIcon
                className="gap"
                title={t('providers.not_approved')}
                description={t('providers.not_approved_text')}
              />
            )}
            <Facts provider={p} />
            <h2>{t('providers.step_register')}</h2>
            <p className="muted">{t('providers.step_register_text')}</p>
            <Descriptions
              bordered
              size="small"
              column={1}
              items={[
                {
                  key: 'redirect',
                  label: t('providers.redirect'),
                  children: <Copyable text={p.redirect_uri} what={t('providers.redirect')} />,
                },
                {
                  key: 'logout',
                  label: t('providers.logout'),
                  children: <Copyable text={p.backchannel_logout_uri} what={t('providers.logout')} />,
                },
              ]}
            />
            <h2>{t('providers.step_domains')}</h2>
            <p className="muted">{t('providers.step_domains_text')}</p>
            <Domains provider={p} />
            <h2>{t('providers.step_demand')}</h2>
            <Demand provider={p} />
          </>
        )}
      </Outcome>
    </>
  );
}

function Facts({ provider: p }: { provider: Identity }) {
  const { t } = useTranslation();
  return (
    <Descriptions
      bordered
      size="small"
      column={{ xs: 1, lg: 2 }}
      items={[
        { key: 'id', label: t('field.id'), children: <Copyable text={p.id} what={t('field.id')} /> },
        { key: 'issuer', label: t('workloads.issuer'), children: <code>{p.issuer}</code> },
        { key: 'client', label: t('providers.client_id'), children: <code>{p.client_id}</code> },
        {
          key: 'secret',
          label: t('providers.client_secret'),
          children: p.has_client_secret ? t('providers.secret_there') : t('providers.secret_none'),
        },
        {
          key: 'enrol',
          label: t('providers.enrol'),
          children: p.auto_enrol_role === 'none' ? t('providers.enrol_none') : t(`role.${p.auto_enrol_role}`),
        },
        { key: 'updated', label: t('field.updated'), children: <Time at={p.updated_at} /> },
      ]}
    />
  );
}

function Actions({ provider }: { provider: Identity }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const navigate = route.useNavigate();
  const may = useMay('sso:write');
  const [open, setOpen] = useState<'edit' | 'unlink' | 'delete'>();
  const close = () => setOpen(undefined);
  return (
    <Space wrap>
      <MayButton may={may} onClick={() => setOpen('edit')}>
        {t('action.edit')}
      </MayButton>
      <MayButton may={may} onClick={() => setOpen('unlink')}>
        {t('providers.unlink')}
      </MayButton>
      <MayButton may={may} danger onClick={() => setOpen('delete')}>
        {t('action.delete')}
      </MayButton>
      {open === 'edit' && <ProviderDialog provider={provider} onClose={close} />}
      {open === 'unlink' && <Unlink provider={provider} onClose={close} />}
      {open === 'delete' && (
        <ConfirmByName
          open
          title={t('providers.delete', { name: provider.name })}
          text={t('providers.delete_text')}
          name={provider.name}
          action={t('action.delete')}
          onClose={close}
          run={async () => {
            await got(
              api.DELETE('/v1/identity-providers/{id}', {
                params: { path: { id: provider.id }, header: { 'If-Match': etag(provider) } },
              }),
            );
            void message.success(t('providers.deleted', { name: provider.name }));
            void navigate({ to: '/security' });
            await queries.invalidateQueries({ queryKey: ['identity-providers'], exact: true });
          }}
        />
      )}
    </Space>
  );
}

/** The record that proves each domain, and the look for it. */
function Domains({ provider }: { provider: Identity }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const may = useMay('sso:write');
  const [busy, setBusy] = useState<string>();
  const [problem, setProblem] = useState<ApiProblem>();

  async function verify(domain: string) {
    setBusy(domain);
    setProblem(undefined);
    try {
      await got(
        api.POST('/v1/identity-providers/{id}/actions/verify-domain', {
          params: { path: { id: provider.id } },
          body: { domain },
        }),
      );
      void message.success(t('providers.domain_verified', { domain }));
    } catch (err) {
      setProblem(asProblem(err));
    } finally {
      setBusy(undefined);
      await queries.invalidateQueries({ queryKey: ['identity-providers'] });
    }
  }

  if (provider.domains.length === 0) {
    return <Nothing text={t('providers.no_domains')} />;
  }
  return (
    <>
      {problem && <ProblemView problem={problem} />}
      <DataTable<Schemas['IdentityDomain']>
        label={t('providers.domains')}
        rowKey="domain"
        dataSource={provider.domains}
        pagination={false}
        columns={[
          {
            title: t('providers.domain'),
            render: (_, d) => (
              <>
                {d.domain}{' '}
                <Badge tone={d.verified_at ? 'good' : 'warn'}>
                  {t(d.verified_at ? 'providers.verified' : 'providers.unverified')}
                </Badge>
              </>
            ),
          },
          {
            title: t('providers.txt'),
            render: (_, d) => (
              <>
                <Copyable text={d.txt_name} what={t('providers.txt_name')} />
                <div>
                  <Copyable text={d.txt_value} what={t('providers.txt_value')} />
                </div>
              </>
            ),
          },
          {
            title: t('field.actions'),
            className: 'stays',
            render: (_, d) =>
              d.verified_at ? (
                <Time at={d.verified_at} />
              ) : (
                <MayButton
                  may={may}
                  size="small"
                  loading={busy === d.domain}
                  aria-label={t('providers.verify_one', { domain: d.domain })}
                  onClick={() => void verify(d.domain)}
                >
                  {t('providers.verify')}
                </MayButton>
              ),
          },
        ]}
      />
    </>
  );
}

function Demand({ provider }: { provider: Identity }) {
  const { t } = useTranslation();
  const tenant = useTenant();
  const ready = provider.enabled && provider.domains.some((d) => d.verified_at);
  const demanded = tenant.data?.security.sso_required;
  return (
    <p className="muted narrow">
      {t(demanded ? 'providers.demanded' : ready ? 'providers.ready' : 'providers.not_ready')}{' '}
      <Link to="/security">{t('security.title')}</Link>
    </p>
  );
}

function Unlink({ provider, onClose }: { provider: Identity; onClose: () => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const members = useMembers();
  const [form] = Form.useForm<{ user_id: string }>();
  const { busy, problem, save } = useSave<{ user_id: string }>(form, async (v) => {
    await got(
      api.POST('/v1/identity-providers/{id}/actions/unlink', { params: { path: { id: provider.id } }, body: v }),
    );
    void message.success(t('providers.unlinked'));
    onClose();
  });
  return (
    <Modal
      open
      title={t('providers.unlink')}
      footer={
        <Space>
          <Button onClick={onClose}>{t('action.cancel')}</Button>
          <Button danger type="primary" loading={busy} onClick={form.submit}>
            {t('providers.unlink')}
          </Button>
        </Space>
      }
      onCancel={onClose}
    >
      <p>{t('providers.unlink_text')}</p>
      {problem && <ProblemView problem={problem} />}
      <Form form={form} name="unlink" layout="vertical" onFinish={save}>
        <Form.Item
          name="user_id"
          label={t('accessor.member')}
          rules={[{ required: true, message: t('form.required') }]}
        >
          <Select
            showSearch={{ optionFilterProp: 'label' }}
            options={members.data?.map((m) => ({ value: m.id, label: m.email }))}
          />
        </Form.Item>
      </Form>
    </Modal>
  );
}
