import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { Schemas } from '../api/client';
import { proveSignIn, secondFactor } from '../api/mfa';
import { type ApiProblem, asProblem } from '../api/problem';
import { askSecurityKey, securityKeysWork } from '../lib/webauthn';
import { LightForm } from './fields';
import { useForm } from './form';
import { Button, Field, LightPage, ProblemNote } from './ui';

/** The second factor of a sign-in: a security key, a code of an app, or a recovery code. */
export function SecondStep(props: {
  title: string;
  email: string;
  awaited: Schemas['MfaAwaited'];
  onDone: (grant: Schemas['Session']) => void;
  /** Back to the password; with a problem when this step has run out. */
  onBack: (problem?: ApiProblem) => void;
}) {
  const { t } = useTranslation();
  const { awaited } = props;
  const [code, setCode] = useState('');
  const byKey = awaited.methods.includes('webauthn') ? awaited.webauthn_options : undefined;
  const byApp = awaited.methods.includes('totp');
  const form = useForm(
    { code },
    (v): { code?: string } => (v.code.trim() ? {} : { code: t('form.required') }),
    (v) => prove(secondFactor(v.code)),
  );

  async function prove(proof: Parameters<typeof proveSignIn>[1]) {
    try {
      props.onDone(await proveSignIn(awaited.mfa_token, proof));
    } catch (err) {
      setCode('');
      const problem = asProblem(err);
      if (problem.code === 'mfa_token_invalid' || problem.code === 'account_closing') {
        props.onBack(problem);
        return;
      }
      throw problem;
    }
  }

  return (
    <LightPage title={props.title}>
      <p className="lead" role="status">
        {t('sign_in.second_step', { email: props.email })}
      </p>
      {byKey && <ByKey options={byKey} prove={(credential) => prove({ credential })} />}
      <LightForm
        form={form}
        submit={byKey ? t('sign_in.with_code') : t('sign_in.submit')}
        problemTitle={(c) => (c === 'mfa_code_wrong' ? t('sign_in.wrong_code') : undefined)}
      >
        <Field
          label={byApp ? t('sign_in.code') : t('sign_in.recovery_code')}
          name="code"
          autoComplete="one-time-code"
          maxLength={40}
          required
          autoFocus={!byKey}
          hint={t('sign_in.code_hint')}
          value={code}
          onChange={(e) => setCode(e.target.value)}
          error={form.errors.code}
        />
      </LightForm>
      <p className="aside">
        <button type="button" className="button plain" onClick={() => props.onBack()}>
          {t('sign_in.other_account')}
        </button>
      </p>
    </LightPage>
  );
}

function ByKey({ options, prove }: { options: string; prove: (credential: string) => Promise<void> }) {
  const { t } = useTranslation();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ApiProblem>();
  if (!securityKeysWork()) {
    return <p className="note plain">{t('webauthn.no_browser')}</p>;
  }

  async function ask() {
    setBusy(true);
    setProblem(undefined);
    try {
      await prove(await askSecurityKey(options));
    } catch (err) {
      setProblem(asProblem(err));
    } finally {
      setBusy(false);
    }
  }

  return (
    <div className="step">
      {problem && <ProblemNote problem={problem} />}
      <Button busy={busy} autoFocus onClick={() => void ask()} data-testid="use-security-key">
        {t('webauthn.use')}
      </Button>
      <p className="hint">{t('webauthn.use_hint')}</p>
      <p className="or">{t('webauthn.or')}</p>
    </div>
  );
}
