import { Button } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { type ApiProblem, asProblem } from '../api/problem';
import { askSecurityKey, securityKeysWork } from '../lib/webauthn';
import { ProblemView } from './ui';

/** Asks a security key for a proof; absent where the browser has none to offer. */
export function SecurityKeyButton(props: { options: string; onAnswer: (credential: string) => Promise<void> }) {
  const { t } = useTranslation();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ApiProblem>();
  if (!securityKeysWork()) {
    return null;
  }

  async function ask() {
    setBusy(true);
    setProblem(undefined);
    try {
      await props.onAnswer(await askSecurityKey(props.options));
    } catch (err) {
      setProblem(asProblem(err));
    } finally {
      setBusy(false);
    }
  }

  return (
    <div className="gap">
      {problem && <ProblemView problem={problem} />}
      <Button type="primary" loading={busy} onClick={() => void ask()} data-testid="use-security-key">
        {t('webauthn.use')}
      </Button>
      <p className="muted">{t('webauthn.use_hint')}</p>
    </div>
  );
}
