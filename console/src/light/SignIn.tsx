import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, session } from '../api/client';
import { proveSignIn } from '../api/mfa';
import { go, useAddress } from '../lib/location';
import { safeNext } from '../lib/next';
import { emailPattern, useForm } from './form';
import { Button, Field, Go, LightPage, ProblemNote } from './ui';

export function SignIn() {
  const { t } = useTranslation();
  const { query } = useAddress();
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [code, setCode] = useState('');
  const [awaited, setAwaited] = useState<string>();
  const form = useForm(
    { email, password, code },
    (v) => ({
      ...(v.email.trim() ? {} : { email: t('form.required') }),
      ...(v.password ? {} : { password: t('form.required') }),
      ...(awaited && !v.code.trim() ? { code: t('form.required') } : {}),
    }),
    async (v) => {
      let grant = awaited ? await proveSignIn(awaited, v.code) : undefined;
      if (!grant) {
        const answer = await got(
          api.POST('/v1/auth/sign-in', { body: { email: v.email.trim(), password: v.password } }),
        );
        if ('mfa_token' in answer) {
          setAwaited(answer.mfa_token);
          return;
        }
        grant = answer;
      }
      session.adopt(grant);
      go(safeNext(query.get('next')), 'replace');
    },
  );
  const sso = useForm(
    { email },
    (v) => (emailPattern.test(v.email.trim()) ? {} : { email: t('form.email_wrong') }),
    async (v) => {
      const begun = await got(api.POST('/v1/auth/sso/start', { body: { email: v.email.trim() } }));
      window.location.assign(begun.authorization_url);
    },
  );
  // The identity provider sent the browser back: the refresh cookie is there, the page knows nothing of it yet.
  const back = query.get('sso') === 'done';
  useEffect(() => {
    if (back) {
      void session.refresh().then((in_) => in_ && go('/', 'replace'));
    }
  }, [back]);
  return (
    <LightPage title={t('sign_in.title')}>
      {query.get('reset') === 'done' && (
        <div className="note good" role="status">
          {t('sign_in.password_set')}
        </div>
      )}
      <form onSubmit={form.submit} noValidate>
        {form.problem && (
          <ProblemNote
            problem={form.problem}
            title={form.problem.kind === 'signed_out' ? t(awaited ? 'sign_in.wrong_code' : 'sign_in.wrong') : undefined}
          />
        )}
        {sso.problem && <ProblemNote problem={sso.problem} />}
        <Field
          label={t('form.email')}
          name="email"
          type="email"
          autoComplete="username"
          required
          value={email}
          onChange={(e) => setEmail(e.target.value)}
          error={form.errors.email ?? sso.errors.email}
        />
        <Field
          label={t('form.password')}
          name="password"
          type="password"
          autoComplete="current-password"
          required
          value={password}
          onChange={(e) => setPassword(e.target.value)}
          error={form.errors.password}
        />
        {awaited && (
          <Field
            label={t('sign_in.code')}
            name="code"
            autoComplete="one-time-code"
            required
            autoFocus
            value={code}
            onChange={(e) => setCode(e.target.value)}
            error={form.errors.code}
          />
        )}
        <Button type="submit" busy={form.busy}>
          {t('sign_in.submit')}
        </Button>
        <Button kind="plain" busy={sso.busy} onClick={() => void sso.submit()}>
          {t('sign_in.sso')}
        </Button>
      </form>
      <p className="aside">
        <Go to="/password-reset">{t('sign_in.forgot')}</Go>
      </p>
      <p className="aside">
        {t('sign_in.new_here')} <Go to="/sign-up">{t('sign_up.title')}</Go>
      </p>
    </LightPage>
  );
}
