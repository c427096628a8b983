import { useQuery } from '@tanstack/react-query';
import { Button, Form, Input, Modal } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { allPages, api, got, type Schemas, session } from '../../../api/client';
import { type ApiProblem, asProblem } from '../../../api/problem';
import { go, href } from '../../../lib/location';
import { forgetSecrets, rememberSecret } from '../../../lib/secrets';
import { Badge, DataTable, Outcome, ProblemView } from '../../ui';
import { useSave } from '../../useSave';

/** Goes on in another tenant. All that is on the page belongs to the old one, so the page begins anew. */
async function enterTenant(tenant_id: string) {
  session.adopt(await got(api.POST('/v1/auth/switch-tenant', { body: { tenant_id } })));
  forgetSecrets();
}

/** The tenants that the person belongs to. */
export function Tenants() {
  const { t } = useTranslation();
  const [making, setMaking] = useState(false);
  const [busy, setBusy] = useState<string>();
  const [problem, setProblem] = useState<ApiProblem>();
  const query = useQuery({
    queryKey: ['tenants'],
    queryFn: ({ signal }) =>
      allPages((page_token) => got(api.GET('/v1/tenants', { params: { query: { page_token } }, signal }))),
  });

  async function enter(tenant: Schemas['OwnTenant']) {
    setBusy(tenant.id);
    setProblem(undefined);
    try {
      await enterTenant(tenant.id);
      location.assign(href('/'));
    } catch (err) {
      setProblem(asProblem(err));
      setBusy(undefined);
    }
  }

  return (
    <>
      {problem && <ProblemView problem={problem} />}
      <Outcome query={query}>
        {(items) => (
          <DataTable<Schemas['OwnTenant']>
            label={t('tenants.title')}
            rowKey="id"
            size="small"
            dataSource={items}
            pagination={false}
            columns={[
              {
                title: t('field.name'),
                render: (_, v) => (
                  <>
                    {v.name} {v.current && <Badge tone="good">{t('tenants.current')}</Badge>}
                  </>
                ),
              },
              { title: t('account.role'), render: (_, v) => t(`role.${v.role}`) },
              {
                title: t('field.status'),
                render: (_, v) => (
                  <Badge tone={v.status === 'active' ? 'good' : 'bad'}>{t(`tenant_status.${v.status}`)}</Badge>
                ),
              },
              {
                title: t('field.actions'),
                className: 'stays',
                render: (_, v) =>
                  v.current ? null : (
                    <Button
                      size="small"
                      loading={busy === v.id}
                      aria-label={t('tenants.enter_one', { name: v.name })}
                      onClick={() => void enter(v)}
                    >
                      {t('tenants.enter')}
                    </Button>
                  ),
              },
            ]}
          />
        )}
      </Outcome>
      <Button className="gap top" onClick={() => setMaking(true)}>
        {t('tenants.create')}
      </Button>
      {making && <CreateTenant onClose={() => setMaking(false)} />}
    </>
  );
}

function CreateTenant({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const [form] = Form.useForm<Schemas['TenantCreate']>();
  // What was made, should going there fail: it is not made twice.
  const [made, setMade] = useState<Schemas['Founded']>();
  const { busy, problem, save } = useSave<Schemas['TenantCreate']>(form, async (v) => {
    const founded = made ?? (await got(api.POST('/v1/tenants', { body: { name: v.name.trim() } })));
    setMade(founded);
    await enterTenant(founded.tenant_id);
    rememberSecret(founded.api_key.id, founded.api_key.secret);
    // Leaving the console empties its cache.
    go(`/start?ns=${founded.namespace_id}`);
  });
  return (
    <Modal
      open
      title={t('tenants.create')}
      okText={t('action.create')}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={onClose}
    >
      <p>{t('tenants.create_text')}</p>
      {problem && <ProblemView problem={problem} />}
      <Form form={form} name="tenant" layout="vertical" onFinish={save}>
        <Form.Item
          name="name"
          label={t('form.tenant_name')}
          rules={[{ required: true, whitespace: true, message: t('form.required') }]}
        >
          <Input autoComplete="organization" maxLength={100} autoFocus disabled={made !== undefined} />
        </Form.Item>
      </Form>
    </Modal>
  );
}
