import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, session } from '../api/client';
import { go } from '../lib/location';
import { rememberSecret } from '../lib/secrets';
import { CodeField, EmailField, LightForm } from './fields';
import { emailPattern, useForm } from './form';
import { MailboxHint } from './MailboxHint';
import { pendingEmail, setPendingEmail } from './pending';
import { Go, LightPage } from './ui';

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
      <LightForm
        form={form}
        submit={t('verify.submit')}
        problemTitle={(c) => (c === 'code_invalid' ? t('verify.wrong') : undefined)}
      >
        {!known && <EmailField value={email} onChange={setEmail} error={form.errors.email} autoComplete="email" />}
        <CodeField value={code} onChange={setCode} error={form.errors.code} />
      </LightForm>
      <p className="aside">
        {t('verify.no_mail')} <Go to="/sign-up">{t('verify.again')}</Go>
      </p>
    </LightPage>
  );
}
