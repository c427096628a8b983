import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Alert, App, Button, Checkbox, Form, Input, Modal, Select, Space } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { allPages, api, etag, got, type Schemas } from '../../api/client';
import { rememberSecret } from '../../lib/secrets';
import { keyCode } from '../ascode';
import { useMay, useNamespaces } from '../data';
import { fromLocalInput } from '../localTime';
import { durationPattern } from '../patterns';
import { compact } from '../search';
import { AsCode, ConfirmByName, Copyable, ProblemView } from '../ui';
import { useSave } from '../useSave';

const permissions = ['PUB', 'SUB', 'MANAGE', 'DESCRIBE'] as const;
const controlRoles = ['viewer', 'developer', 'billing', 'admin'] as const;

interface ScopeValues {
  namespace_id?: string;
  permissions?: Schemas['KeyPermission'][];
  topics?: string[];
  groups?: string[];
}

interface KeyValues {
  name: string;
  owner_id?: string;
  scopes?: ScopeValues[];
  control_role?: Schemas['ControlRole'];
  expires_at?: string;
  allowed_cidrs?: string[];
}

function toCreate(v: KeyValues): Schemas['ApiKeyCreate'] {
  const some = (l: string[] | undefined) => (l && l.length > 0 ? l : undefined);
  return compact({
    name: v.name?.trim() ?? '',
    owner_id: v.owner_id,
    scopes: (v.scopes ?? [])
      .filter((s) => s?.namespace_id)
      .map((s) =>
        compact({
          namespace_id: s.namespace_id as string,
          permissions: s.permissions ?? [],
          topics: some(s.topics),
          groups: some(s.groups),
        }),
      ),
    control_role: v.control_role,
    expires_at: fromLocalInput(v.expires_at),
    allowed_cidrs: some(v.allowed_cidrs),
  });
}

export function CreateKey(props: {
  open: boolean;
  onClose: () => void;
  onMade: (key: Schemas['ApiKeyWithSecret']) => void;
}) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const namespaces = useNamespaces();
  const seesAccounts = useMay('service_account:read');
  const accounts = useQuery({
    queryKey: ['service-accounts', 'all'],
    enabled: props.open && seesAccounts,
    queryFn: ({ signal }) =>
      allPages((page_token) => got(api.GET('/v1/service-accounts', { params: { query: { page_token } }, signal }))),
  });
  const [form] = Form.useForm<KeyValues>();
  const values = Form.useWatch((v: KeyValues) => v, form) ?? { name: '' };
  const { busy, problem, save, reset } = useSave<KeyValues>(form, async (v) => {
    const key = await got(api.POST('/v1/api-keys', { params: { query: { wait: '10s' } }, body: toCreate(v) }));
    await queries.invalidateQueries({ queryKey: ['keys'] });
    close();
    if ('secret' in key) {
      rememberSecret(key.id, key.secret);
      props.onMade(key);
    }
  });

  function close() {
    reset();
    form.resetFields();
    props.onClose();
  }

  return (
    <Modal
      open={props.open}
      title={t('keys.create')}
      okText={t('action.create')}
      okButtonProps={{ 'data-testid': 'submit-key' }}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={close}
      width={720}
    >
      {problem && <ProblemView problem={problem} />}
      <Form
        form={form}
        layout="vertical"
        onFinish={save}
        initialValues={{ scopes: [{ namespace_id: namespaces.data?.[0]?.id, permissions: ['PUB', 'SUB'] }] }}
      >
        <Form.Item
          name="name"
          label={t('field.name')}
          rules={[{ required: true, whitespace: true, message: t('form.required') }]}
        >
          <Input autoComplete="off" maxLength={100} />
        </Form.Item>
        {accounts.data && accounts.data.length > 0 && (
          <Form.Item name="owner_id" label={t('keys.owner')} extra={t('keys.owner_hint')}>
            <Select
              allowClear
              placeholder={t('keys.owner_me')}
              options={accounts.data.map((a) => ({ value: a.id, label: a.name }))}
            />
          </Form.Item>
        )}
        <Form.List name="scopes">
          {(fields, { add, remove }) => (
            <fieldset className="list">
              <legend>{t('keys.scopes')}</legend>
              {fields.map((f) => (
                <div key={f.key} className="scope">
                  <Form.Item
                    name={[f.name, 'namespace_id']}
                    label={t('nav.namespace')}
                    rules={[{ required: true, message: t('form.required') }]}
                  >
                    <Select
                      showSearch={{ optionFilterProp: 'label' }}
                      options={namespaces.data?.map((n) => ({ value: n.id, label: `${n.name} (${n.id})` }))}
                    />
                  </Form.Item>
                  <Form.Item
                    name={[f.name, 'permissions']}
                    label={t('keys.permissions')}
                    rules={[
                      // Not "required": that would put aria-required on a group of boxes, which must not have it.
                      {
                        validator: (_, v: string[] | undefined) =>
                          v && v.length > 0 ? Promise.resolve() : Promise.reject(new Error(t('form.required'))),
                      },
                    ]}
                  >
                    <Checkbox.Group options={permissions.map((p) => ({ value: p, label: t(`permission.${p}`) }))} />
                  </Form.Item>
                  <div className="row">
                    <Form.Item name={[f.name, 'topics']} label={t('keys.topics')} extra={t('keys.pattern_hint')}>
                      <Select mode="tags" open={false} suffixIcon={null} tokenSeparators={[' ', ',']} />
                    </Form.Item>
                    <Form.Item name={[f.name, 'groups']} label={t('keys.groups')} extra={t('keys.pattern_hint')}>
                      <Select mode="tags" open={false} suffixIcon={null} tokenSeparators={[' ', ',']} />
                    </Form.Item>
                  </div>
                  <Button onClick={() => remove(f.name)}>{t('keys.remove_scope')}</Button>
                </div>
              ))}
              <Button onClick={() => add({ permissions: ['PUB', 'SUB'] })}>{t('keys.add_scope')}</Button>
            </fieldset>
          )}
        </Form.List>
        <div className="row">
          <Form.Item name="control_role" label={t('keys.control_role')} extra={t('keys.control_hint')}>
            <Select allowClear options={controlRoles.map((r) => ({ value: r, label: t(`role.${r}`) }))} />
          </Form.Item>
          <Form.Item name="expires_at" label={t('keys.expires')} extra={t('keys.expires_hint')}>
            <Input type="datetime-local" />
          </Form.Item>
        </div>
        <Form.Item name="allowed_cidrs" label={t('keys.cidrs')} extra={t('keys.cidrs_hint')}>
          <Select mode="tags" open={false} suffixIcon={null} tokenSeparators={[' ', ',']} />
        </Form.Item>
      </Form>
      <AsCode {...keyCode(toCreate(values))} />
    </Modal>
  );
}

/** The only place where a secret is shown. It goes away by an explicit word, not by a click beside the dialog. */
export function SecretOnce({ apiKey, onClose }: { apiKey: Schemas['ApiKeyWithSecret']; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <Modal
      open
      title={t('keys.made', { name: apiKey.name })}
      closable={false}
      mask={{ closable: false }}
      keyboard={false}
      footer={
        <Button type="primary" onClick={onClose} data-testid="secret-stored">
          {t('keys.stored')}
        </Button>
      }
      width={640}
    >
      <Alert type="warning" showIcon className="gap" title={t('keys.once')} />
      <Space orientation="vertical">
        <div>
          <div className="muted">{t('start.access_key')}</div>
          <Copyable text={apiKey.id} what={t('start.access_key')} />
        </div>
        <div data-testid="secret">
          <div className="muted">{t('start.secret_key')}</div>
          <Copyable text={apiKey.secret} what={t('start.secret_key')} />
        </div>
      </Space>
    </Modal>
  );
}

export function RotateKey(props: {
  apiKey: Schemas['ApiKey'];
  onClose: () => void;
  onMade: (key: Schemas['ApiKeyWithSecret']) => void;
}) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const { apiKey } = props;
  const [form] = Form.useForm<{ grace_period: string }>();
  const { busy, problem, save } = useSave<{ grace_period: string }>(form, async (v) => {
    const key = await got(
      api.POST('/v1/api-keys/{id}/actions/rotate', {
        params: { path: { id: apiKey.id }, query: { wait: '10s' }, header: { 'If-Match': etag(apiKey) } },
        body: { grace_period: v.grace_period },
      }),
    );
    await queries.invalidateQueries({ queryKey: ['keys'] });
    props.onClose();
    if ('secret' in key) {
      rememberSecret(key.id, key.secret);
      props.onMade(key);
    }
  });
  return (
    <Modal
      open
      title={t('keys.rotate_one', { name: apiKey.name })}
      okText={t('keys.rotate')}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={props.onClose}
    >
      <p>{t('keys.rotate_text')}</p>
      {problem && <ProblemView problem={problem} />}
      <Form form={form} layout="vertical" onFinish={save} initialValues={{ grace_period: '15m' }}>
        <Form.Item
          name="grace_period"
          label={t('keys.grace')}
          extra={t('keys.grace_hint')}
          rules={[{ required: true, pattern: durationPattern, message: t('form.duration_pattern') }]}
        >
          <Input autoComplete="off" />
        </Form.Item>
      </Form>
    </Modal>
  );
}

export function RevokeKey({ apiKey, onClose }: { apiKey: Schemas['ApiKey']; onClose: () => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const [open, setOpen] = useState(true);
  return (
    <ConfirmByName
      open={open}
      title={t('keys.revoke_one', { name: apiKey.name })}
      text={t('keys.revoke_text')}
      name={apiKey.name}
      action={t('keys.revoke')}
      onClose={() => {
        setOpen(false);
        onClose();
      }}
      run={async () => {
        await got(
          api.POST('/v1/api-keys/{id}/actions/revoke', {
            params: { path: { id: apiKey.id }, query: { wait: '10s' }, header: { 'If-Match': etag(apiKey) } },
          }),
        );
        void message.success(t('keys.revoked', { name: apiKey.name }));
        await queries.invalidateQueries({ queryKey: ['keys'] });
      }}
    />
  );
}
