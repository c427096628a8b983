import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got } from '../api/client';
import { go, useAddress } from '../lib/location';
import { CodeField, EmailField, LightForm, NewPasswordField } from './fields';
import { emailPattern, minPassword, useForm } from './form';
import { MailboxHint } from './MailboxHint';
import { pendingEmail, setPendingEmail } from './pending';
import { Go, LightPage } from './ui';

export function PasswordReset() {
  const { query } = useAddress();
  return query.get('step') === 'code' ? <SetPassword /> : <AskForCode />;
}

function AskForCode() {
  const { t } = useTranslation();
  const [email, setEmail] = useState(pendingEmail);
  const form = useForm(
    { email },
    (v): { email?: string } => (emailPattern.test(v.email.trim()) ? {} : { email: t('form.email_wrong') }),
    async (v) => {
      await got(api.POST('/v1/auth/password-reset', { body: { email: v.email.trim() } }));
      setPendingEmail(v.email.trim());
      go('/password-reset?step=code');
    },
  );
  return (
    <LightPage title={t('reset.title')}>
      <p className="lead">{t('reset.lead')}</p>
      <LightForm form={form} submit={t('reset.send_code')}>
        <EmailField value={email} onChange={setEmail} error={form.errors.email} />
      </LightForm>
      <p className="aside">
        <Go to="/sign-in">{t('reset.back')}</Go>
      </p>
    </LightPage>
  );
}

function SetPassword() {
  const { t } = useTranslation();
  const [email, setEmail] = useState(pendingEmail);
  const [code, setCode] = useState('');
  const [password, setPassword] = useState('');
  const form = useForm(
    { email, code, password },
    (v) => ({
      ...(emailPattern.test(v.email.trim()) ? {} : { email: t('form.email_wrong') }),
      ...(/^\d{6}$/.test(v.code) ? {} : { code: t('form.code_wrong') }),
      ...(v.password.length >= minPassword ? {} : { password: t('form.password_short', { min: String(minPassword) }) }),
    }),
    async (v) => {
      const body = { email: v.email.trim(), code: v.code, password: v.password };
      await got(api.POST('/v1/auth/password-reset/confirm', { body }));
      setPendingEmail('');
      go('/sign-in?reset=done', 'replace');
    },
  );
  return (
    <LightPage title={t('reset.title')}>
      <p className="lead">{t('reset.code_lead')}</p>
      <MailboxHint />
      <LightForm
        form={form}
        submit={t('reset.submit')}
        problemTitle={(c) => (c === 'code_invalid' ? t('verify.wrong') : undefined)}
      >
        <EmailField value={email} onChange={setEmail} error={form.errors.email} />
        <CodeField value={code} onChange={setCode} error={form.errors.code} />
        <NewPasswordField
          label={t('form.new_password')}
          value={password}
          onChange={setPassword}
          error={form.errors.password}
        />
      </LightForm>
    </LightPage>
  );
}
