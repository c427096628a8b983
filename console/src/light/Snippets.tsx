import { useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../api/client';
import { type ApiProblem, asProblem } from '../api/problem';
import { secretOf } from '../lib/secrets';
import { type ClientLanguage, clientLanguages, fillSecret } from '../lib/snippet';
import { CopyButton, ProblemNote } from './ui';

/** A ready program for each client. The secret is put into the text here; the server sends only a placeholder. */
export function Snippets(props: { ns: string; topic: string; group: string; keyId: string | undefined }) {
  const { t } = useTranslation();
  const { ns, topic, group, keyId } = props;
  const [language, setLanguage] = useState<ClientLanguage>('go');
  const [config, setConfig] = useState<Schemas['ClientConfig']>();
  const [problem, setProblem] = useState<ApiProblem>();
  const tabs = useRef<HTMLDivElement>(null);

  useEffect(() => {
    const stop = new AbortController();
    setProblem(undefined);
    got(
      api.GET('/v1/namespaces/{ns}/client-config', {
        params: { path: { ns }, query: { language, topic, group, api_key_id: keyId } },
        signal: stop.signal,
      }),
    ).then(setConfig, (err) => {
      if (!stop.signal.aborted) {
        setProblem(asProblem(err));
      }
    });
    return () => stop.abort();
  }, [ns, language, topic, group, keyId]);

  function onKey(e: React.KeyboardEvent) {
    const step = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0;
    if (step === 0) {
      return;
    }
    e.preventDefault();
    const at = (clientLanguages.indexOf(language) + step + clientLanguages.length) % clientLanguages.length;
    setLanguage(clientLanguages[at] as ClientLanguage);
    tabs.current?.querySelectorAll<HTMLButtonElement>('[role=tab]')[at]?.focus();
  }

  const fits = config?.language === language ? config : undefined;
  const fill = (text: string) => fillSecret(text, fits?.secret_placeholder ?? '', secretOf(keyId));

  return (
    <>
      <div role="tablist" aria-label={t('start.snippets')} className="tabs" ref={tabs}>
        {clientLanguages.map((l) => (
          <button
            key={l}
            type="button"
            role="tab"
            id={`tab-${l}`}
            aria-selected={l === language}
            aria-controls="snippet"
            tabIndex={l === language ? 0 : -1}
            onClick={() => setLanguage(l)}
            onKeyDown={onKey}
          >
            {t(`client.${l}`)}
          </button>
        ))}
      </div>
      <div role="tabpanel" id="snippet" aria-labelledby={`tab-${language}`} aria-busy={!fits && !problem}>
        {problem && <ProblemNote problem={problem} />}
        {!fits && !problem && <p className="hint">{t('state.loading')}</p>}
        {fits && (
          <>
            {fits.install.trim() !== '' && <Code title={t('start.install')} text={fill(fits.install)} />}
            <Code title={fits.file_name} text={fill(fits.snippet)} testid="snippet-text" />
            {fits.run.trim() !== '' && <Code title={t('start.run')} text={fill(fits.run)} />}
          </>
        )}
      </div>
    </>
  );
}

function Code({ title, text, testid }: { title: string; text: string; testid?: string }) {
  const { t } = useTranslation();
  return (
    <figure className="code">
      <figcaption>
        <span>{title}</span>
        <CopyButton text={text} label={t('copy.label', { what: title })} />
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll, and the keyboard must be able to do it */}
      <pre tabIndex={0} data-testid={testid}>
        {text}
      </pre>
    </figure>
  );
}
