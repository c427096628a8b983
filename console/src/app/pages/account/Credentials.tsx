import { useQueryClient } from '@tanstack/react-query';
import { App, Button, Form, Input, Modal, Space } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../../../api/client';
import { emailPattern, minPassword } from '../../../light/form';
import { ProblemView } from '../../ui';
import { useSave } from '../../useSave';

/** Password and mail address: what a person signs in with. */
export function Credentials({ me }: { me: Schemas['Me'] }) {
  const { t } = useTranslation();
  const [open, setOpen] = useState<'password' | 'email'>();
  const close = () => setOpen(undefined);
  return (
    <Space wrap className="gap top">
      <Button onClick={() => setOpen('password')}>{t('account.change_password')}</Button>
      <Button onClick={() => setOpen('email')}>{t('account.change_email')}</Button>
      {open === 'password' && <ChangePassword me={me} onClose={close} />}
      {open === 'email' && <ChangeEmail onClose={close} />}
    </Space>
  );
}

function ChangePassword({ me, onClose }: { me: Schemas['Me']; onClose: () => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const [form] = Form.useForm<Schemas['PasswordChange']>();
  const { busy, problem, save } = useSave<Schemas['PasswordChange']>(form, async (v) => {
    await got(api.POST('/v1/me/actions/change-password', { body: v }));
    void message.success(t('account.password_changed'));
    void queries.invalidateQueries({ queryKey: ['sessions'] });
    onClose();
  });
  return (
    <Modal
      open
      title={t('account.change_password')}
      okText={t('action.save')}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={onClose}
    >
      <p>{t('account.change_password_text')}</p>
      {problem && <ProblemView problem={problem} />}
      <Form form={form} name="new_password" layout="vertical" onFinish={save}>
        <input type="text" hidden readOnly autoComplete="username" value={me.email ?? ''} />
        <Form.Item
          name="current_password"
          label={t('account.current_password')}
          rules={[{ required: true, message: t('form.required') }]}
        >
          <Input type="password" autoComplete="current-password" maxLength={128} autoFocus />
        </Form.Item>
        <Form.Item
          name="password"
          label={t('form.new_password')}
          extra={t('form.password_hint', { min: String(minPassword) })}
          rules={[
            { required: true, min: minPassword, message: t('form.password_short', { min: String(minPassword) }) },
          ]}
        >
          <Input type="password" autoComplete="new-password" maxLength={128} />
        </Form.Item>
      </Form>
    </Modal>
  );
}

/** In two steps: the new address, then the code that was sent there. */
function ChangeEmail({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const [form] = Form.useForm<{ email: string; code?: string }>();
  const [sentTo, setSentTo] = useState<string>();
  const { busy, problem, save } = useSave<{ email: string; code?: string }>(form, async (v) => {
    if (!sentTo) {
      const email = v.email.trim();
      await got(api.POST('/v1/me/actions/change-email', { body: { email } }));
      setSentTo(email);
      return;
    }
    const me = await got(api.POST('/v1/me/actions/confirm-email', { body: { email: sentTo, code: v.code ?? '' } }));
    queries.setQueryData(['me'], me);
    void message.success(t('account.email_changed', { email: sentTo }));
    onClose();
  });
  return (
    <Modal
      open
      title={t('account.change_email')}
      okText={sentTo ? t('verify.submit') : t('reset.send_code')}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={onClose}
    >
      <p>{sentTo ? t('verify.sent_to', { email: sentTo }) : t('account.change_email_text')}</p>
      {problem && <ProblemView problem={problem} />}
      <Form form={form} name="new_email" layout="vertical" onFinish={save}>
        {sentTo ? (
          <Form.Item
            name="code"
            label={t('form.code')}
            rules={[{ required: true, pattern: /^\d{6}$/, message: t('form.code_wrong') }]}
          >
            <Input inputMode="numeric" autoComplete="one-time-code" maxLength={6} autoFocus />
          </Form.Item>
        ) : (
          <Form.Item
            name="email"
            label={t('account.new_email')}
            rules={[{ required: true, pattern: emailPattern, message: t('form.email_wrong') }]}
          >
            <Input type="email" autoComplete="email" maxLength={254} autoFocus />
          </Form.Item>
        )}
      </Form>
    </Modal>
  );
}
