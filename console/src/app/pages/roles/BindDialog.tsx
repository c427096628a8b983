import { Alert, App, Form, Input, Modal, Radio, Select } from 'antd';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas } from '../../../api/client';
import { useMe, useMembers, useNamespaces, usePrincipalName, useServiceAccounts } from '../../data';
import { fromLocalInput, toLocalInput } from '../../localTime';
import { mayGive } from '../../may';
import { compact } from '../../search';
import { ProblemView } from '../../ui';
import { useSave } from '../../useSave';
import { useRoleName, useRoles } from './names';
import { counting } from './permissions';

const kinds = ['tenant', 'namespace', 'topic', 'group'] as const;

/** Everybody who can have a role: people and service accounts. */
export function usePrincipalOptions() {
  const { t } = useTranslation();
  const members = useMembers();
  const accounts = useServiceAccounts();
  return [
    { label: t('members.title'), options: members.data?.map((m) => ({ value: m.id, label: m.email })) ?? [] },
    {
      label: t('nav.service_accounts'),
      options: accounts.data?.map((a) => ({ value: a.id, label: a.name })) ?? [],
    },
  ].filter((g) => g.options.length > 0);
}

interface Values {
  principal_id: string;
  role: string;
  kind: Schemas['RoleScopeKind'];
  namespace_id?: string;
  pattern?: string;
  expires_at?: string;
}

function scopeOf(v: Partial<Values>): Schemas['RoleScope'] {
  const kind = v.kind ?? 'namespace';
  if (kind === 'tenant') {
    return { kind };
  }
  return compact({
    kind,
    namespace_id: v.namespace_id,
    pattern: kind === 'namespace' ? undefined : v.pattern?.trim() || '*',
  });
}

/** Gives somebody a role in a part of the organisation, for ever or for a while. */
export function BindDialog(props: { principal?: string; onClose: () => void; onDone: () => Promise<void> }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const me = useMe();
  const roles = useRoles();
  const roleName = useRoleName();
  const accounts = useServiceAccounts();
  const namespaces = useNamespaces();
  const principals = usePrincipalOptions();
  const [form] = Form.useForm<Values>();
  const values: Partial<Values> = Form.useWatch((v: Values) => v, form) ?? {};
  const scope = scopeOf(values);
  const role = roles.data?.find((r) => r.id === values.role);
  const unbound = accounts.data?.find((a) => a.id === values.principal_id && !a.bound);
  const counts = role && counting(role.permissions, scope.kind);
  const { busy, problem, save } = useSave<Values>(form, async (v) => {
    await got(
      api.POST('/v1/role-bindings', {
        body: compact({
          principal_id: v.principal_id,
          role: v.role,
          scope: scopeOf(v),
          expires_at: fromLocalInput(v.expires_at),
        }),
      }),
    );
    void message.success(t('bindings.created'));
    props.onClose();
    await props.onDone();
  });
  const needed = [{ required: true, message: t('form.required') }];
  return (
    <Modal
      open
      title={t('bindings.create')}
      okText={t('bindings.give')}
      okButtonProps={{ 'data-testid': 'submit-binding' }}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={props.onClose}
      width={640}
    >
      {problem && <ProblemView problem={problem} />}
      <Form
        form={form}
        name="binding"
        layout="vertical"
        onFinish={save}
        initialValues={{ principal_id: props.principal, kind: 'namespace', namespace_id: namespaces.data?.[0]?.id }}
      >
        <Form.Item name="principal_id" label={t('bindings.principal')} rules={needed}>
          <Select showSearch={{ optionFilterProp: 'label' }} options={principals} />
        </Form.Item>
        {unbound && (
          <Alert type="warning" showIcon className="gap" title={t('bindings.first', { name: unbound.name })} />
        )}
        <Form.Item name="role" label={t('account.role')} rules={needed}>
          <Select
            showSearch={{ optionFilterProp: 'label' }}
            options={roles.data
              ?.filter((r) => r.permissions.length > 0)
              .map((r) => ({
                value: r.id,
                label: roleName(r.id),
                disabled: me.data !== undefined && !mayGive(me.data, r.permissions, scope),
              }))}
          />
        </Form.Item>
        <Form.Item name="kind" label={t('bindings.where')}>
          <Radio.Group options={kinds.map((k) => ({ value: k, label: t(`binding_kind.${k}`) }))} />
        </Form.Item>
        {scope.kind !== 'tenant' && (
          <Form.Item name="namespace_id" label={t('nav.namespace')} rules={needed}>
            <Select
              showSearch={{ optionFilterProp: 'label' }}
              options={namespaces.data?.map((n) => ({ value: n.id, label: `${n.name} (${n.id})` }))}
            />
          </Form.Item>
        )}
        {(scope.kind === 'topic' || scope.kind === 'group') && (
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
        <Form.Item name="expires_at" label={t('keys.expires')} extra={t('keys.expires_hint')}>
          <Input type="datetime-local" step={1} />
        </Form.Item>
      </Form>
      <div aria-live="polite" data-testid="counts">
        {counts && counts.length === 0 && <Alert type="warning" showIcon title={t('bindings.nothing_there')} />}
        {counts && counts.length > 0 && (
          <p className="muted">
            {t('bindings.gives')} <span className="words">{counts.join(' ')}</span>
          </p>
        )}
      </div>
    </Modal>
  );
}

/** Moves the end of a binding; all else about it would be another one. */
export function BindingEnd(props: {
  binding: Schemas['RoleBinding'];
  onClose: () => void;
  onDone: () => Promise<void>;
}) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const nameOf = usePrincipalName();
  const roleName = useRoleName();
  const { binding } = props;
  const [form] = Form.useForm<{ expires_at?: string }>();
  const { busy, problem, save } = useSave<{ expires_at?: string }>(form, async (v) => {
    await got(
      api.PATCH('/v1/role-bindings/{id}', {
        params: { path: { id: binding.id }, header: { 'If-Match': etag(binding) } },
        body: { expires_at: fromLocalInput(v.expires_at) ?? null },
      }),
    );
    void message.success(t('state.saved'));
    props.onClose();
    await props.onDone();
  });
  return (
    <Modal
      open
      title={t('bindings.end_of', { name: nameOf(binding.principal_id), role: roleName(binding.role) })}
      okText={t('action.save')}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={props.onClose}
    >
      {problem && <ProblemView problem={problem} />}
      <Form
        form={form}
        name="binding_end"
        layout="vertical"
        onFinish={save}
        initialValues={{ expires_at: toLocalInput(binding.expires_at) }}
      >
        <Form.Item name="expires_at" label={t('keys.expires')} extra={t('keys.expires_hint')}>
          <Input type="datetime-local" step={1} autoFocus />
        </Form.Item>
      </Form>
    </Modal>
  );
}
