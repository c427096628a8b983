import { Alert, Form, Input, Modal } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got } from '../../../api/client';
import { ProblemView } from '../../ui';
import { useSave } from '../../useSave';

/** For whoever found a secret where it should not be: the key is revoked, whoever's it is. */
export function ReportLeak({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const [form] = Form.useForm<{ text: string }>();
  const [taken, setTaken] = useState(false);
  const { busy, problem, save } = useSave<{ text: string }>(form, async (v) => {
    await got(api.POST('/v1/api-keys/actions/report-leak', { body: { text: v.text } }));
    form.resetFields();
    setTaken(true);
  });
  return (
    <Modal
      open
      title={t('leak.title')}
      okText={taken ? t('leak.another') : t('leak.submit')}
      okButtonProps={{ danger: !taken }}
      cancelText={taken ? t('keys.done') : t('action.cancel')}
      confirmLoading={busy}
      onOk={() => (taken ? setTaken(false) : form.submit())}
      onCancel={onClose}
    >
      <p>{t('leak.text')}</p>
      {problem && <ProblemView problem={problem} />}
      {taken && (
        <Alert type="success" showIcon role="status" title={t('leak.taken')} description={t('leak.taken_text')} />
      )}
      {!taken && (
        <Form form={form} name="leak" layout="vertical" onFinish={save}>
          <Form.Item
            name="text"
            label={t('leak.found')}
            extra={t('leak.found_hint')}
            rules={[{ required: true, whitespace: true, message: t('form.required') }]}
          >
            <Input.TextArea
              autoComplete="off"
              spellCheck={false}
              maxLength={65536}
              autoSize={{ minRows: 3, maxRows: 10 }}
              className="mono"
            />
          </Form.Item>
        </Form>
      )}
    </Modal>
  );
}
