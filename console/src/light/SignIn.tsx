import { lazy, useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas, session } from '../api/client';
import { type ApiProblem, asProblem } from '../api/problem';
import { go, useAddress } from '../lib/location';
import { safeNext } from '../lib/next';
import { goToProvider } from '../lib/sso';
import { EmailField, LightForm, PasswordField } from './fields';
import { emailPattern, useForm } from './form';
import { Go, LightPage, ProblemNote } from './ui';

const SecondStep = lazy(() => import('./SecondStep').then((m) => ({ default: m.SecondStep })));

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
  const [awaited, setAwaited] = useState<Schemas['MfaAwaited']>();
  const [over, setOver] = useState<ApiProblem>();
  const form = useForm(
    { email, password },
    (v) => ({
      ...(v.email.trim() ? {} : { email: t('form.required') }),
      ...(v.password ? {} : { password: t('form.required') }),
    }),
    async (v) => {
      setOver(undefined);
      const answer = await got(api.POST('/v1/auth/sign-in', { body: { email: v.email.trim(), password: v.password } }));
      if ('mfa_token' in answer) {
        setAwaited(answer);
      } else {
        enter(answer);
      }
    },
  );

  function enter(grant: Schemas['Session']) {
    session.adopt(grant);
    go(safeNext(query.get('next')), 'replace');
  }

  if (awaited) {
    return (
      <SecondStep
        title={t('sign_in.title')}
        email={email}
        awaited={awaited}
        onDone={enter}
        onBack={(problem) => {
          setOver(problem);
          setAwaited(undefined);
        }}
      />
    );
  }
  return (
    <LightPage title={t('sign_in.title')}>
      {query.get('reset') === 'done' && (
        <div className="note good" role="status">
          {t('sign_in.password_set')}
        </div>
      )}
      {over && !form.problem && <ProblemNote problem={over} />}
      <LightForm
        form={form}
        submit={t('sign_in.submit')}
        problemTitle={(code) => (code === 'credentials_invalid' ? t('sign_in.wrong') : undefined)}
      >
        <EmailField value={email} onChange={setEmail} error={form.errors.email} />
        <PasswordField value={password} onChange={setPassword} error={form.errors.password} />
      </LightForm>
      {(form.problem ?? over)?.code === 'account_closing' && (
        <p className="aside">
          <Go to="/reopen">{t('reopen.title')}</Go>
        </p>
      )}
      <Others query={query} />
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
      <LightForm form={form} submit={t('sso.submit')}>
        <EmailField value={email} onChange={setEmail} error={form.errors.email} />
      </LightForm>
      <p className="aside">
        <Go to="/sign-in">{t('sso.with_password')}</Go>
      </p>
    </LightPage>
  );
}
