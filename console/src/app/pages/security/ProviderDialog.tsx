import { useQueryClient } from '@tanstack/react-query';
import { App, Form, Input, Modal, Select, Switch } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas } from '../../../api/client';
import { compact } from '../../search';
import { ProblemView } from '../../ui';
import { useSave } from '../../useSave';

type Provider = Schemas['IdentityProvider'];

interface Values {
  name: string;
  issuer: string;
  client_id: string;
  client_secret?: string;
  domains?: string[];
  auto_enrol_role: Schemas['AutoEnrolRole'];
  enabled: boolean;
}

const enrolRoles = ['none', 'viewer', 'developer', 'billing'] as const;

/** Names an OpenID Connect provider, or changes one. */
export function ProviderDialog(props: { provider?: Provider; onClose: () => void; onMade?: (p: Provider) => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const { provider } = props;
  const [form] = Form.useForm<Values>();
  // The secret that is kept is shown to nobody, so it is left alone until the user says otherwise.
  const [newSecret, setNewSecret] = useState(provider === undefined || !provider.has_client_secret);
  const { busy, problem, save } = useSave<Values>(form, async (v) => {
    const body = {
      name: v.name.trim(),
      issuer: v.issuer.trim(),
      client_id: v.client_id.trim(),
      domains: v.domains ?? [],
      auto_enrol_role: v.auto_enrol_role,
      enabled: v.enabled,
    };
    const saved = provider
      ? await got(
          api.PATCH('/v1/identity-providers/{id}', {
            params: { path: { id: provider.id }, header: { 'If-Match': etag(provider) } },
            body: { ...body, ...(newSecret ? { client_secret: v.client_secret || null } : {}) },
          }),
        )
      : await got(api.POST('/v1/identity-providers', { body: compact({ ...body, client_secret: v.client_secret }) }));
    void message.success(t('state.saved'));
    props.onClose();
    props.onMade?.(saved);
    await queries.invalidateQueries({ queryKey: ['identity-providers'] });
  });
  const needed = [{ required: true, whitespace: true, message: t('form.required') }];
  return (
    <Modal
      open
      title={provider ? t('providers.edit', { name: provider.name }) : t('providers.create')}
      okText={provider ? t('action.save') : t('action.create')}
      okButtonProps={{ 'data-testid': 'submit-provider' }}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={props.onClose}
      width={640}
    >
      <p className="muted">{provider ? t('providers.edit_text') : t('providers.create_text')}</p>
      {problem && <ProblemView problem={problem} />}
      <Form
        form={form}
        name="provider"
        layout="vertical"
        onFinish={save}
        initialValues={
          provider
            ? { ...provider, domains: provider.domains.map((d) => d.domain) }
            : { auto_enrol_role: 'none', enabled: true }
        }
      >
        <Form.Item name="name" label={t('field.name')} rules={needed}>
          <Input autoComplete="off" maxLength={100} autoFocus />
        </Form.Item>
        <Form.Item name="issuer" label={t('workloads.issuer')} extra={t('providers.issuer_hint')} rules={needed}>
          <Input type="url" autoComplete="off" maxLength={300} />
        </Form.Item>
        <div className="row">
          <Form.Item name="client_id" label={t('providers.client_id')} rules={needed}>
            <Input autoComplete="off" maxLength={255} />
          </Form.Item>
          {newSecret ? (
            <Form.Item name="client_secret" label={t('providers.client_secret')} extra={t('providers.secret_hint')}>
              <Input type="password" autoComplete="new-password" maxLength={512} />
            </Form.Item>
          ) : (
            <Form.Item label={t('providers.replace_secret')} extra={t('providers.secret_kept')}>
              <Switch aria-label={t('providers.replace_secret')} checked={false} onChange={() => setNewSecret(true)} />
            </Form.Item>
          )}
        </div>
        <Form.Item name="domains" label={t('providers.domains')} extra={t('providers.domains_hint')}>
          <Select mode="tags" open={false} suffixIcon={null} tokenSeparators={[' ', ',']} />
        </Form.Item>
        <div className="row">
          <Form.Item name="auto_enrol_role" label={t('providers.enrol')} extra={t('providers.enrol_hint')}>
            <Select
              options={enrolRoles.map((r) => ({
                value: r,
                label: r === 'none' ? t('providers.enrol_none') : t(`role.${r}`),
              }))}
            />
          </Form.Item>
          <Form.Item name="enabled" label={t('providers.may_sign_in')} valuePropName="checked">
            <Switch />
          </Form.Item>
        </div>
      </Form>
    </Modal>
  );
}
