import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, session } from '../api/client';
import { proveSignIn } from '../api/mfa';
import { type ApiProblem, asProblem } from '../api/problem';
import { go, useAddress } from '../lib/location';
import { safeNext } from '../lib/next';
import { goToProvider } from '../lib/sso';
import { emailPattern, useForm } from './form';
import { Button, Field, Go, LightPage, ProblemNote } from './ui';

export function SignIn() {
  const { query } = useAddress();
  switch (query.get('sso')) {
    case 'done':
      return <BackFromProvider />;
    case null:
      return <WithPassword />;
  }
  return <AtProvider />;
}

/** The identity provider sent the browser back: the refresh cookie is there, the page knows nothing of it yet. */
function BackFromProvider() {
  const { t } = useTranslation();
  const [problem, setProblem] = useState<ApiProblem>();
  useEffect(() => {
    session
      .refresh()
      .then((there) => go(there ? '/' : '/sign-in', 'replace'))
      .catch((err) => setProblem(asProblem(err)));
  }, []);
  return (
    <LightPage title={t('sso.title')}>
      {problem ? <ProblemNote problem={problem} /> : <p role="status">{t('state.loading')}</p>}
      <p className="aside">
        <Go to="/sign-in?sso=1">{t('state.retry')}</Go>
      </p>
    </LightPage>
  );
}

function WithPassword() {
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
      let grant = awaited ? await proveCode(awaited, v.code) : undefined;
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

  async function proveCode(token: string, text: string) {
    try {
      return await proveSignIn(token, text);
    } catch (err) {
      setCode('');
      if (asProblem(err).code === 'mfa_token_invalid') {
        setAwaited(undefined);
      }
      throw err;
    }
  }

  function problemTitle(): string | undefined {
    switch (form.problem?.code) {
      case 'credentials_invalid':
        return t('sign_in.wrong');
      case 'mfa_code_wrong':
        return t('sign_in.wrong_code');
    }
    return undefined;
  }

  return (
    <LightPage title={t('sign_in.title')}>
      {query.get('reset') === 'done' && (
        <div className="note good" role="status">
          {t('sign_in.password_set')}
        </div>
      )}
      {awaited && (
        <p className="lead" role="status">
          {t('sign_in.second_step', { email })}
        </p>
      )}
      <form onSubmit={form.submit} noValidate>
        {form.problem && <ProblemNote problem={form.problem} title={problemTitle()} />}
        {!awaited && (
          <>
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
          </>
        )}
        {awaited && (
          <Field
            label={t('sign_in.code')}
            name="code"
            autoComplete="one-time-code"
            maxLength={40}
            required
            autoFocus
            hint={t('sign_in.code_hint')}
            value={code}
            onChange={(e) => setCode(e.target.value)}
            error={form.errors.code}
          />
        )}
        <Button type="submit" busy={form.busy}>
          {t('sign_in.submit')}
        </Button>
      </form>
      {awaited ? (
        <p className="aside">
          <button
            type="button"
            className="button plain"
            onClick={() => {
              setAwaited(undefined);
              setCode('');
            }}
          >
            {t('sign_in.other_account')}
          </button>
        </p>
      ) : (
        <Others query={query} />
      )}
    </LightPage>
  );
}

function Others({ query }: { query: URLSearchParams }) {
  const { t } = useTranslation();
  const next = query.get('next');
  return (
    <>
      <p className="aside">
        <Go to={`/sign-in?sso=1${next ? `&next=${encodeURIComponent(next)}` : ''}`}>{t('sso.title')}</Go>
      </p>
      <p className="aside">
        <Go to="/password-reset">{t('sign_in.forgot')}</Go>
      </p>
      <p className="aside">
        {t('sign_in.new_here')} <Go to="/sign-up">{t('sign_up.title')}</Go>
      </p>
    </>
  );
}

/** The mail address finds the identity provider; the rest happens there. */
function AtProvider() {
  const { t } = useTranslation();
  const [email, setEmail] = useState('');
  const form = useForm(
    { email },
    (v): { email?: string } => (emailPattern.test(v.email.trim()) ? {} : { email: t('form.email_wrong') }),
    (v) => goToProvider({ email: v.email.trim() }),
  );
  return (
    <LightPage title={t('sso.title')}>
      <p className="lead">{t('sso.lead')}</p>
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
          {t('sso.submit')}
        </Button>
      </form>
      <p className="aside">
        <Go to="/sign-in">{t('sso.with_password')}</Go>
      </p>
    </LightPage>
  );
}
