import { lazy, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas, session } from '../api/client';
import type { ApiProblem } from '../api/problem';
import { tagOf } from '../i18n';
import { formatTime } from '../lib/format';
import { go, useAddress } from '../lib/location';
import { EmailField, LightForm, PasswordField } from './fields';
import { useForm } from './form';
import { Go, LightPage, ProblemNote } from './ui';

const SecondStep = lazy(() => import('./SecondStep').then((m) => ({ default: m.SecondStep })));

/** Where the mail about a closed account leads: takes the closing back, as long as it can be. */
export function Reopen() {
  const { t, i18n } = useTranslation();
  const until = useAddress().query.get('until');
  const erased = until && !Number.isNaN(Date.parse(until)) ? formatTime(until, tagOf(i18n.language)) : undefined;
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
      const answer = await got(api.POST('/v1/auth/reopen', { body: { email: v.email.trim(), password: v.password } }));
      if ('mfa_token' in answer) {
        setAwaited(answer);
      } else {
        enter(answer);
      }
    },
  );

  function enter(grant: Schemas['Session']) {
    session.adopt(grant);
    go('/account', 'replace');
  }

  if (awaited) {
    return (
      <SecondStep
        title={t('reopen.title')}
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
  const open = form.problem?.code === 'account_open';
  return (
    <LightPage title={t('reopen.title')}>
      {erased && (
        <div className="note good" role="status">
          {t('reopen.closed', { time: erased })}
        </div>
      )}
      <p className="lead">{t('reopen.lead')}</p>
      {over && !form.problem && <ProblemNote problem={over} />}
      <LightForm
        form={form}
        submit={t('reopen.submit')}
        problemTitle={(code) => (code === 'credentials_invalid' ? t('reopen.wrong') : undefined)}
      >
        <EmailField value={email} onChange={setEmail} error={form.errors.email} />
        <PasswordField value={password} onChange={setPassword} error={form.errors.password} />
      </LightForm>
      <p className="aside">
        {open ? <Go to="/sign-in">{t('sign_in.title')}</Go> : <Go to="/password-reset">{t('sign_in.forgot')}</Go>}
      </p>
    </LightPage>
  );
}
