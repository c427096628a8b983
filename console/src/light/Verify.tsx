import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, session } from '../api/client';
import { go } from '../lib/location';
import { rememberSecret } from '../lib/secrets';
import { emailPattern, useForm } from './form';
import { MailboxHint } from './MailboxHint';
import { pendingEmail, setPendingEmail } from './pending';
import { Button, Field, Go, LightPage, ProblemNote } from './ui';

export function Verify() {
  const { t } = useTranslation();
  const [email, setEmail] = useState(pendingEmail);
  const [code, setCode] = useState('');
  const form = useForm(
    { email, code },
    (v) => ({
      ...(emailPattern.test(v.email.trim()) ? {} : { email: t('form.email_wrong') }),
      ...(/^\d{6}$/.test(v.code) ? {} : { code: t('form.code_wrong') }),
    }),
    async (v) => {
      const done = await got(api.POST('/v1/auth/verify', { body: { email: v.email.trim(), code: v.code } }));
      rememberSecret(done.api_key.id, done.api_key.secret);
      setPendingEmail('');
      session.adopt(done);
      go(`/start?ns=${done.namespace_id}`, 'replace');
    },
  );
  const known = pendingEmail();
  return (
    <LightPage title={t('verify.title')}>
      <p className="lead">{known ? t('verify.sent_to', { email: known }) : t('verify.lead')}</p>
      <MailboxHint />
      <form onSubmit={form.submit} noValidate>
        {form.problem && (
          <ProblemNote
            problem={form.problem}
            title={form.problem.kind === 'signed_out' ? t('verify.wrong') : undefined}
          />
        )}
        {!known && (
          <Field
            label={t('form.email')}
            name="email"
            type="email"
            autoComplete="email"
            value={email}
            onChange={(e) => setEmail(e.target.value)}
            error={form.errors.email}
          />
        )}
        <CodeField value={code} onChange={setCode} error={form.errors.code} />
        <Button type="submit" busy={form.busy}>
          {t('verify.submit')}
        </Button>
      </form>
      <p className="aside">
        {t('verify.no_mail')} <Go to="/sign-up">{t('verify.again')}</Go>
      </p>
    </LightPage>
  );
}

/** Six digits; what is pasted with blanks or other signs between them is cleaned. */
export function CodeField(props: { value: string; onChange: (code: string) => void; error: string | undefined }) {
  const { t } = useTranslation();
  return (
    <Field
      label={t('form.code')}
      name="code"
      className="code-input"
      inputMode="numeric"
      autoComplete="one-time-code"
      required
      value={props.value}
      onChange={(e) => props.onChange(e.target.value.replace(/\D/g, '').slice(0, 6))}
      error={props.error}
    />
  );
}
