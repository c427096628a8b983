import { useQueryClient } from '@tanstack/react-query';
import { App, Form, Input, Modal } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../../../api/client';
import { makeSecurityKey } from '../../../lib/webauthn';
import { ProblemView } from '../../ui';
import { useSave } from '../../useSave';

/** A name, then a touch of the key. What the server began is used again when the touch is tried once more. */
export function AddSecurityKey(props: { onClose: () => void; onAdded: (codes: readonly string[]) => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const [form] = Form.useForm<{ name: string }>();
  const [begun, setBegun] = useState<Schemas['WebauthnEnrolment']>();
  const { busy, problem, save } = useSave<{ name: string }>(form, async (v) => {
    const name = v.name.trim();
    const enrolment =
      begun?.name === name
        ? begun
        : await got(api.POST('/v1/me/mfa-factors/actions/begin-webauthn', { body: { name } }));
    setBegun(enrolment);
    const credential = await makeSecurityKey(enrolment.options);
    try {
      const done = await got(
        api.POST('/v1/me/mfa-factors/{id}/actions/confirm-webauthn', {
          params: { path: { id: enrolment.id } },
          body: { credential },
        }),
      );
      void message.success(t('mfa.added', { name: done.factor.name }));
      props.onAdded(done.recovery_codes);
      await queries.invalidateQueries();
    } catch (err) {
      // An answer that the server refused fits no second time.
      setBegun(undefined);
      throw err;
    }
  });
  return (
    <Modal
      open
      title={t('mfa.add_key')}
      okText={begun ? t('state.retry') : t('mfa.next')}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      mask={{ closable: false }}
      onOk={form.submit}
      onCancel={props.onClose}
    >
      <p>{t('mfa.add_key_text')}</p>
      {problem && <ProblemView problem={problem} />}
      <Form form={form} name="security_key" layout="vertical" onFinish={save}>
        <Form.Item
          name="name"
          label={t('mfa.name')}
          extra={t('mfa.key_name_hint')}
          rules={[{ required: true, whitespace: true, message: t('form.required') }]}
        >
          <Input autoComplete="off" maxLength={100} autoFocus />
        </Form.Item>
      </Form>
      <p className="muted" role="status">
        {busy && begun ? t('webauthn.use_hint') : ''}
      </p>
    </Modal>
  );
}
