import { Alert, AutoComplete, Button, Form, Input, Select } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../../../api/client';
import { compact } from '../../search';
import { Copyable, ProblemView } from '../../ui';
import { useSave } from '../../useSave';
import { operations, usePrincipals } from './RuleDialog';

/** Asks what brokers would decide, and what makes it so. */
export function Tester({ ns }: { ns: string }) {
  const { t } = useTranslation();
  const { keyOptions } = usePrincipals();
  const [form] = Form.useForm<Schemas['AclTest']>();
  const [decision, setDecision] = useState<Schemas['AclDecision']>();
  const { busy, problem, save } = useSave<Schemas['AclTest']>(form, async (v) => {
    setDecision(undefined);
    setDecision(
      await got(
        api.POST('/v1/namespaces/{ns}/acls/actions/test', {
          params: { path: { ns } },
          body: compact({ ...v, principal: v.principal.trim(), name: v.name.trim(), source_ip: v.source_ip?.trim() }),
        }),
      ),
    );
  });
  const needed = [{ required: true, whitespace: true, message: t('form.required') }];
  return (
    <>
      {problem && <ProblemView problem={problem} />}
      <Form
        form={form}
        name="test"
        layout="vertical"
        onFinish={save}
        initialValues={{ operation: 'PUB', resource: 'topic' }}
      >
        <div className="row">
          <Form.Item name="principal" label={t('dimension.api_key')} rules={needed}>
            <AutoComplete
              options={keyOptions}
              showSearch={{
                filterOption: (typed, o) => `${o?.label}`.toLowerCase().includes(typed.toLowerCase()),
              }}
            />
          </Form.Item>
          <Form.Item name="operation" label={t('access.operation')}>
            <Select options={operations.map((p) => ({ value: p, label: t(`permission.${p}`) }))} />
          </Form.Item>
          <Form.Item name="resource" label={t('access.resource')}>
            <Select options={(['topic', 'group'] as const).map((r) => ({ value: r, label: t(`acl_resource.${r}`) }))} />
          </Form.Item>
          <Form.Item name="name" label={t('field.name')} rules={needed}>
            <Input autoComplete="off" maxLength={100} />
          </Form.Item>
          <Form.Item name="source_ip" label={t('access.source_ip')}>
            <Input autoComplete="off" maxLength={45} />
          </Form.Item>
        </div>
        <Button htmlType="submit" loading={busy} data-testid="ask">
          {t('access.ask')}
        </Button>
      </Form>
      <div aria-live="polite" data-testid="decision">
        {decision && (
          <Alert
            className="gap top"
            type={decision.allowed ? 'success' : 'warning'}
            showIcon
            title={decision.allowed ? t('access.allowed') : t('access.denied')}
            description={
              <>
                <p>{decision.reason}</p>
                <p>
                  {t('access.decided_by')} {t(`decider.${decision.decided_by}`)}{' '}
                  {decision.rule_id && <Copyable text={decision.rule_id} what={t('access.rule')} />}
                </p>
              </>
            }
          />
        )}
      </div>
    </>
  );
}
