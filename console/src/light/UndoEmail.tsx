import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, session } from '../api/client';
import { go } from '../lib/location';
import { forgetSecrets } from '../lib/secrets';
import { EmailField, LightForm } from './fields';
import { emailPattern, useForm } from './form';
import { MailboxHint } from './MailboxHint';
import { setPendingEmail } from './pending';
import { Button, Field, Go, LightPage } from './ui';

/** Where the mail to the old address leads: for somebody whose mail address was changed, and not by them. */
export function UndoEmail() {
  const { t } = useTranslation();
  const [email, setEmail] = useState('');
  const [code, setCode] = useState('');
  const [done, setDone] = useState('');
  const form = useForm(
    { email, code },
    (v) => ({
      ...(emailPattern.test(v.email.trim()) ? {} : { email: t('form.email_wrong') }),
      ...(v.code ? {} : { code: t('form.required') }),
    }),
    async (v) => {
      const address = v.email.trim();
      await got(api.POST('/v1/auth/email-undo', { body: { email: address, code: v.code } }));
      // The server ended all sessions of the account, the one of this browser with them.
      forgetSecrets();
      session.drop();
      setPendingEmail(address);
      setDone(address);
    },
  );
  if (done) {
    return (
      <LightPage title={t('undo_email.done')}>
        <div className="note good" role="status">
          {t('undo_email.done_text', { email: done })}
        </div>
        <p className="lead">{t('undo_email.next')}</p>
        <Button onClick={() => go('/password-reset')}>{t('reset.title')}</Button>
      </LightPage>
    );
  }
  return (
    <LightPage title={t('undo_email.title')}>
      <p className="lead">{t('undo_email.lead')}</p>
      <MailboxHint />
      <LightForm
        form={form}
        submit={t('undo_email.submit')}
        problemTitle={(c) => (c === 'code_invalid' ? t('undo_email.wrong') : undefined)}
      >
        <EmailField value={email} onChange={setEmail} error={form.errors.email} autoComplete="email" />
        <Field
          label={t('undo_email.code')}
          name="code"
          autoComplete="off"
          maxLength={64}
          required
          hint={t('undo_email.code_hint')}
          value={code}
          onChange={(e) => setCode(e.target.value.replace(/[^0-9A-Za-z]/g, ''))}
          error={form.errors.code}
        />
      </LightForm>
      <p className="aside">
        <Go to="/sign-in">{t('reset.back')}</Go>
      </p>
    </LightPage>
  );
}
