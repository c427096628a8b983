import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got } from '../api/client';
import { go, useAddress } from '../lib/location';
import { emailPattern, minPassword, useForm } from './form';
import { MailboxHint } from './MailboxHint';
import { pendingEmail, setPendingEmail } from './pending';
import { Button, Field, Go, LightPage, ProblemNote } from './ui';
import { CodeField } from './Verify';

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
      <form onSubmit={form.submit} noValidate>
        {form.problem && <ProblemNote problem={form.problem} />}
        <Field
          label={t('form.email')}
          name="email"
          type="email"
          autoComplete="username"
          required
          value={email}
          onChange={(e) => setEmail(e.target.value)}
          error={form.errors.email}
        />
        <Button type="submit" busy={form.busy}>
          {t('reset.send_code')}
        </Button>
      </form>
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
      <form onSubmit={form.submit} noValidate>
        {form.problem && (
          <ProblemNote
            problem={form.problem}
            title={form.problem.kind === 'signed_out' ? t('verify.wrong') : undefined}
          />
        )}
        <Field
          label={t('form.email')}
          name="email"
          type="email"
          autoComplete="username"
          required
          value={email}
          onChange={(e) => setEmail(e.target.value)}
          error={form.errors.email}
        />
        <CodeField value={code} onChange={setCode} error={form.errors.code} />
        <Field
          label={t('form.new_password')}
          name="password"
          type="password"
          autoComplete="new-password"
          required
          hint={t('form.password_hint', { min: String(minPassword) })}
          value={password}
          onChange={(e) => setPassword(e.target.value)}
          error={form.errors.password}
        />
        <Button type="submit" busy={form.busy}>
          {t('reset.submit')}
        </Button>
      </form>
    </LightPage>
  );
}
