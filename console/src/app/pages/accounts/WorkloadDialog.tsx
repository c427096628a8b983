import { useQueryClient } from '@tanstack/react-query';
import { App, AutoComplete, Button, Form, Input, Modal, Select, Switch } from 'antd';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas } from '../../../api/client';
import { useNamespaces, useServiceAccounts } from '../../data';
import { compact } from '../../search';
import { ProblemView } from '../../ui';
import { useSave } from '../../useSave';
import { controlRoles, ScopesField } from '../keys/Fields';
import { fromScopes, type ScopeValues, toScopes } from '../keys/values';
import { issuers } from './exchange';

type Workload = Schemas['WorkloadIdentity'];

interface Values {
  name: string;
  issuer: string;
  audience: string;
  subject: string;
  conditions?: { claim: string; pattern: string }[];
  service_account_id: string;
  scopes?: ScopeValues[];
  control_role?: Schemas['ControlRole'];
  max_ttl: string;
  enabled: boolean;
}

/** Makes a workload identity, or changes one. */
export function WorkloadDialog(props: {
  workload?: Workload;
  onClose: () => void;
  onMade?: (workload: Workload) => void;
}) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const accounts = useServiceAccounts();
  const namespaces = useNamespaces();
  const { workload } = props;
  const [form] = Form.useForm<Values>();
  const { busy, problem, save } = useSave<Values>(form, async (v) => {
    const body = {
      name: v.name.trim(),
      issuer: v.issuer.trim(),
      audience: v.audience.trim(),
      subject: v.subject.trim(),
      conditions: Object.fromEntries(
        (v.conditions ?? []).filter((c) => c?.claim).map((c) => [c.claim.trim(), c.pattern?.trim() ?? '']),
      ),
      scopes: toScopes(v.scopes),
      max_ttl: v.max_ttl,
      enabled: v.enabled,
    };
    const saved = workload
      ? await got(
          api.PATCH('/v1/workload-identities/{id}', {
            params: { path: { id: workload.id }, header: { 'If-Match': etag(workload) } },
            body,
          }),
        )
      : await got(
          api.POST('/v1/workload-identities', {
            body: compact({ ...body, service_account_id: v.service_account_id, control_role: v.control_role }),
          }),
        );
    void message.success(workload ? t('state.saved') : t('workloads.created', { name: body.name }));
    props.onClose();
    props.onMade?.(saved);
    await queries.invalidateQueries({ queryKey: ['workloads'] });
    await queries.invalidateQueries({ queryKey: ['keys'] });
  });
  const needed = [{ required: true, whitespace: true, message: t('form.required') }];
  return (
    <Modal
      open
      title={workload ? t('workloads.edit', { name: workload.name }) : t('workloads.create')}
      okText={workload ? t('action.save') : t('action.create')}
      okButtonProps={{ 'data-testid': 'submit-workload' }}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={props.onClose}
      width={720}
    >
      <p className="muted">{t('workloads.create_text')}</p>
      {problem && <ProblemView problem={problem} />}
      <Form
        form={form}
        name="workload"
        layout="vertical"
        onFinish={save}
        initialValues={
          workload
            ? {
                ...workload,
                scopes: fromScopes(workload.scopes),
                conditions: Object.entries(workload.conditions).map(([claim, pattern]) => ({ claim, pattern })),
              }
            : {
                audience: location.origin,
                max_ttl: '15m',
                enabled: true,
                service_account_id: accounts.data?.[0]?.id,
                scopes: [{ namespace_id: namespaces.data?.[0]?.id, permissions: ['PUB'] }],
              }
        }
      >
        <div className="row">
          <Form.Item name="name" label={t('field.name')} rules={needed}>
            <Input autoComplete="off" maxLength={100} autoFocus />
          </Form.Item>
          <Form.Item name="service_account_id" label={t('actor.service_account')} rules={needed}>
            <Select
              disabled={workload !== undefined}
              options={accounts.data?.map((a) => ({ value: a.id, label: a.name }))}
            />
          </Form.Item>
        </div>
        <Form.Item name="issuer" label={t('workloads.issuer')} extra={t('workloads.issuer_hint')} rules={needed}>
          <AutoComplete
            options={[
              { value: issuers.github, label: `GitHub Actions: ${issuers.github}` },
              { value: issuers.gitlab, label: `GitLab: ${issuers.gitlab}` },
            ]}
          />
        </Form.Item>
        <div className="row">
          <Form.Item name="subject" label={t('workloads.subject')} extra={t('workloads.subject_hint')} rules={needed}>
            <Input autoComplete="off" maxLength={255} />
          </Form.Item>
          <Form.Item
            name="audience"
            label={t('workloads.audience')}
            extra={t('workloads.audience_hint')}
            rules={needed}
          >
            <Input autoComplete="off" maxLength={255} />
          </Form.Item>
        </div>
        <Form.List name="conditions">
          {(fields, { add, remove }) => (
            <fieldset className="list">
              <legend>{t('workloads.conditions')}</legend>
              {fields.map((f) => (
                <div key={f.key} className="row">
                  <Form.Item name={[f.name, 'claim']} label={t('workloads.claim')} rules={needed}>
                    <Input autoComplete="off" maxLength={100} />
                  </Form.Item>
                  <Form.Item name={[f.name, 'pattern']} label={t('workloads.pattern')} rules={needed}>
                    <Input autoComplete="off" maxLength={255} />
                  </Form.Item>
                  <Button className="beside" onClick={() => remove(f.name)}>
                    {t('action.remove')}
                  </Button>
                </div>
              ))}
              <Button onClick={() => add({})}>{t('workloads.add_condition')}</Button>
            </fieldset>
          )}
        </Form.List>
        <ScopesField />
        <div className="row">
          {!workload && (
            <Form.Item name="control_role" label={t('keys.control_role')} extra={t('keys.control_hint')}>
              <Select allowClear options={controlRoles.map((r) => ({ value: r, label: t(`role.${r}`) }))} />
            </Form.Item>
          )}
          <Form.Item
            name="max_ttl"
            label={t('workloads.ttl')}
            extra={t('workloads.ttl_hint')}
            rules={[{ required: true, pattern: /^([1-9]\d{0,2}s|[1-9]\d?m)$/, message: t('workloads.ttl_wrong') }]}
          >
            <Input autoComplete="off" />
          </Form.Item>
          <Form.Item name="enabled" label={t('workloads.enabled')} valuePropName="checked">
            <Switch />
          </Form.Item>
        </div>
      </Form>
    </Modal>
  );
}
