import { Alert, App, Button, Form, Input, Space } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../../../api/client';
import { consoleMark } from '../../../lib/snippet';
import { fromLocalInput } from '../../localTime';
import { compact } from '../../search';
import { Copyable, ProblemView } from '../../ui';
import { useSave } from '../../useSave';

interface Values {
  body: string;
  tag?: string;
  keys?: string;
  message_group?: string;
  deliver_at?: string;
  properties?: { key: string; value: string }[];
}

/** Sends one message of the topic's type. */
export function SendMessage({ topic }: { topic: Schemas['Topic'] }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const [form] = Form.useForm<Values>();
  const [receipt, setReceipt] = useState<Schemas['MessageReceipt']>();
  const { busy, problem, save } = useSave<Values>(form, async (v) => {
    setReceipt(undefined);
    const properties = Object.fromEntries(
      (v.properties ?? []).filter((p) => p?.key).map((p) => [p.key, p.value ?? '']),
    );
    const done = await got(
      api.POST('/v1/namespaces/{ns}/topics/{topic}/messages', {
        params: { path: { ns: topic.namespace_id, topic: topic.name } },
        body: compact({
          body: v.body ?? '',
          tag: v.tag?.trim() || undefined,
          keys: v.keys?.trim() ? v.keys.trim().split(/\s+/) : undefined,
          message_group: v.message_group?.trim() || undefined,
          deliver_at: fromLocalInput(v.deliver_at),
          properties: { ...properties, [consoleMark.key]: consoleMark.value },
        }),
      }),
    );
    if (done) {
      setReceipt(done);
      void message.success(t('send.done'));
    }
  });

  if (topic.type === 'TRANSACTION') {
    return <Alert type="info" showIcon title={t('send.transaction')} />;
  }
  return (
    <Form form={form} layout="vertical" className="narrow" onFinish={save}>
      {problem && <ProblemView problem={problem} />}
      <Form.Item name="body" label={t('message.body')} rules={[{ required: true, message: t('form.required') }]}>
        <Input.TextArea autoSize={{ minRows: 4, maxRows: 20 }} className="mono" />
      </Form.Item>
      {topic.type === 'FIFO' && (
        <Form.Item
          name="message_group"
          label={t('message.group')}
          extra={t('send.group_hint')}
          rules={[{ required: true, message: t('form.required') }]}
        >
          <Input maxLength={64} />
        </Form.Item>
      )}
      {topic.type === 'DELAY' && (
        <Form.Item name="deliver_at" label={t('message.deliver_at')}>
          <Input type="datetime-local" step={1} />
        </Form.Item>
      )}
      <div className="row">
        <Form.Item name="tag" label={t('message.tag')}>
          <Input maxLength={128} autoComplete="off" />
        </Form.Item>
        <Form.Item name="keys" label={t('message.keys')} extra={t('send.keys_hint')}>
          <Input autoComplete="off" />
        </Form.Item>
      </div>
      <Form.List name="properties">
        {(fields, { add, remove }) => (
          <fieldset className="list">
            <legend>{t('message.properties')}</legend>
            {fields.map((f) => (
              <Space key={f.key} align="start">
                <Form.Item name={[f.name, 'key']} rules={[{ required: true, message: t('form.required') }]}>
                  <Input aria-label={t('send.property_name')} placeholder={t('send.property_name')} />
                </Form.Item>
                <Form.Item name={[f.name, 'value']}>
                  <Input aria-label={t('send.property_value')} placeholder={t('send.property_value')} />
                </Form.Item>
                <Button onClick={() => remove(f.name)}>{t('action.remove')}</Button>
              </Space>
            ))}
            <Button onClick={() => add({ key: '', value: '' })}>{t('send.add_property')}</Button>
          </fieldset>
        )}
      </Form.List>
      <Button type="primary" htmlType="submit" loading={busy}>
        {t('send.submit')}
      </Button>
      <div role="status">
        {receipt && (
          <p>
            {t('send.stored', { queue: String(receipt.queue), offset: receipt.offset })}{' '}
            <Copyable text={receipt.message_id} what={t('message.id')} />
          </p>
        )}
      </div>
    </Form>
  );
}
