import { Button } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas, session } from '../../../api/client';
import { type ApiProblem, asProblem } from '../../../api/problem';
import { go } from '../../../lib/location';
import { forgetSecrets } from '../../../lib/secrets';
import { ConfirmByName, ProblemView, Time } from '../../ui';

/** Ends the account, in two steps: first what would come of it, then the act. */
export function CloseAccount({ me }: { me: Schemas['Me'] }) {
  const { t } = useTranslation();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ApiProblem>();
  const [outcome, setOutcome] = useState<Schemas['AccountClosing']>();
  const close = (dry_run: boolean) =>
    got(api.DELETE('/v1/me', { params: { query: { dry_run }, header: { 'If-Match': etag(me) } } }));

  async function ask() {
    setBusy(true);
    setProblem(undefined);
    try {
      setOutcome(await close(true));
    } catch (err) {
      setProblem(asProblem(err));
    } finally {
      setBusy(false);
    }
  }

  return (
    <>
      <p className="muted narrow">{t('close.lead')}</p>
      {problem && <ProblemView problem={problem} />}
      <Button danger loading={busy} onClick={() => void ask()} data-testid="close-account">
        {t('close.action')}
      </Button>
      {outcome && (
        <ConfirmByName
          open
          title={t('close.title')}
          text={<Outcome of={outcome} />}
          name={me.email ?? me.name}
          action={t('close.action')}
          onClose={() => setOutcome(undefined)}
          run={async () => {
            const { erase_at } = await close(false);
            // The server has ended this session; the next page is for whoever changes their mind.
            go(`/reopen?until=${encodeURIComponent(erase_at)}`, 'replace');
            forgetSecrets();
            session.drop();
          }}
        />
      )}
    </>
  );
}

function Outcome({ of }: { of: Schemas['AccountClosing'] }) {
  const { t } = useTranslation();
  return (
    <>
      <p>{t('close.now')}</p>
      {of.tenants.length > 0 && (
        <>
          <p>{t('close.tenants')}</p>
          <ul>
            {of.tenants.map((v) => (
              <li key={v.id}>
                {v.name} <code>{v.id}</code>
              </li>
            ))}
          </ul>
        </>
      )}
      <p>
        {t('close.until')} <Time at={of.erase_at} />
      </p>
      <p>{t('close.then')}</p>
    </>
  );
}
