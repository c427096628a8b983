import { useQuery, useQueryClient } from '@tanstack/react-query';
import { App, AutoComplete, Checkbox, Form, Input, Modal, Radio, Select } from 'antd';
import { useTranslation } from 'react-i18next';
import { allPages, api, etag, got, type Schemas } from '../../../api/client';
import { useMay, useMembers, useServiceAccounts } from '../../data';
import { fromLocalInput, toLocalInput } from '../../localTime';
import { aclResources, compact } from '../../search';
import { ProblemView } from '../../ui';
import { useSave } from '../../useSave';

export const operations = ['PUB', 'SUB', 'MANAGE', 'DESCRIBE'] as const;

interface RuleValues {
  effect: Schemas['AclEffect'];
  principal: string;
  resource: Schemas['AclResource'];
  pattern: string;
  operations: Schemas['KeyPermission'][];
  cidrs?: string[];
  expires_at?: string;
  description?: string;
}

/** Keys and people that a rule can be for. */
export function usePrincipals() {
  const { t } = useTranslation();
  const keys = useQuery({
    queryKey: ['keys', 'all'],
    enabled: useMay('key:read'),
    queryFn: ({ signal }) =>
      allPages((page_token) =>
        got(api.GET('/v1/api-keys', { params: { query: { page_size: 200, page_token } }, signal })),
      ),
    select: (all) => all.filter((k) => k.state !== 'revoked'),
  });
  const members = useMembers();
  const accounts = useServiceAccounts();
  const keyOptions = keys.data?.map((k) => ({ value: k.id, label: `${k.name} (${k.id})` })) ?? [];
  return {
    keyOptions,
    all: [
      { value: '*', label: t('access.everyone') },
      ...keyOptions,
      ...(accounts.data?.map((a) => ({ value: a.id, label: a.name })) ?? []),
      ...(members.data?.map((m) => ({ value: m.id, label: m.email })) ?? []),
    ],
  };
}

/** Adds a rule, or changes what can be changed of one. */
export function RuleDialog({ ns, rule, onClose }: { ns: string; rule?: Schemas['Acl']; onClose: () => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const principals = usePrincipals();
  const [form] = Form.useForm<RuleValues>();
  const resource = Form.useWatch('resource', form) ?? rule?.resource ?? 'topic';
  const { busy, problem, save } = useSave<RuleValues>(form, async (v) => {
    const pattern = v.resource === 'namespace' ? '*' : v.pattern.trim();
    const expires_at = fromLocalInput(v.expires_at);
    if (rule) {
      await got(
        api.PATCH('/v1/namespaces/{ns}/acls/{id}', {
          params: { path: { ns, id: rule.id }, query: { wait: '10s' }, header: { 'If-Match': etag(rule) } },
          body: {
            effect: v.effect,
            pattern,
            operations: v.operations,
            cidrs: v.cidrs ?? [],
            expires_at: expires_at ?? null,
            description: v.description ?? '',
          },
        }),
      );
    } else {
      await got(
        api.POST('/v1/namespaces/{ns}/acls', {
          params: { path: { ns }, query: { wait: '10s' } },
          body: compact({ ...v, principal: v.principal.trim(), pattern, expires_at }),
        }),
      );
    }
    void message.success(t('access.saved'));
    onClose();
    await queries.invalidateQueries({ queryKey: ['acls', ns] });
    await queries.invalidateQueries({ queryKey: ['access', ns] });
  });
  return (
    <Modal
      open
      title={rule ? t('access.edit') : t('access.create')}
      okText={rule ? t('action.save') : t('action.create')}
      okButtonProps={{ 'data-testid': 'submit-rule' }}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={onClose}
      width={640}
    >
      <p className="muted">{t('access.order')}</p>
      {problem && <ProblemView problem={problem} />}
      <Form
        form={form}
        name="rule"
        layout="vertical"
        onFinish={save}
        initialValues={
          rule
            ? { ...rule, expires_at: toLocalInput(rule.expires_at) }
            : { effect: 'allow', resource: 'topic', operations: ['PUB'] }
        }
      >
        <Form.Item name="effect" label={t('access.effect')}>
          <Radio.Group options={(['allow', 'deny'] as const).map((e) => ({ value: e, label: t(`acl_effect.${e}`) }))} />
        </Form.Item>
        <Form.Item
          name="principal"
          label={t('access.principal')}
          extra={rule ? t('access.fixed') : t('access.principal_hint')}
          rules={[{ required: true, whitespace: true, message: t('form.required') }]}
        >
          <AutoComplete
            disabled={rule !== undefined}
            options={principals.all}
            showSearch={{
              filterOption: (typed, o) => `${o?.value} ${o?.label}`.toLowerCase().includes(typed.toLowerCase()),
            }}
          />
        </Form.Item>
        <div className="row">
          <Form.Item name="resource" label={t('access.resource')} extra={rule && t('access.fixed')}>
            <Select
              disabled={rule !== undefined}
              options={aclResources.map((r) => ({ value: r, label: t(`acl_resource.${r}`) }))}
            />
          </Form.Item>
          {resource !== 'namespace' && (
            <Form.Item
              name="pattern"
              label={t('access.pattern')}
              extra={t('access.pattern_hint')}
              rules={[
                { required: true, pattern: /^\s*(\*|[A-Za-z0-9_-]{1,100}\*?)\s*$/, message: t('access.pattern_wrong') },
              ]}
            >
              <Input autoComplete="off" maxLength={101} />
            </Form.Item>
          )}
        </div>
        <Form.Item
          name="operations"
          label={t('access.operations')}
          rules={[
            {
              validator: (_, v: string[] | undefined) =>
                v && v.length > 0 ? Promise.resolve() : Promise.reject(new Error(t('form.required'))),
            },
          ]}
        >
          <Checkbox.Group options={operations.map((p) => ({ value: p, label: t(`permission.${p}`) }))} />
        </Form.Item>
        <div className="row">
          <Form.Item name="cidrs" label={t('keys.cidrs')} extra={t('keys.cidrs_hint')}>
            <Select mode="tags" open={false} suffixIcon={null} tokenSeparators={[' ', ',']} />
          </Form.Item>
          <Form.Item name="expires_at" label={t('keys.expires')} extra={t('keys.expires_hint')}>
            <Input type="datetime-local" step={1} />
          </Form.Item>
        </div>
        <Form.Item name="description" label={t('field.description')}>
          <Input maxLength={500} />
        </Form.Item>
      </Form>
    </Modal>
  );
}
