import { useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { allPages, api, got, type Schemas, session } from '../api/client';
import { type ApiProblem, asProblem } from '../api/problem';
import type { TailState } from '../api/tail';
import { formatTime } from '../lib/format';
import { go, useAddress } from '../lib/location';
import { newestKeyWithSecret, rememberSecret, secretOf } from '../lib/secrets';
import { consoleMark, sentByConsole } from '../lib/snippet';
import { type Tail, useTail } from '../lib/useTail';
import { Snippets } from './Snippets';
import { Button, CopyButton, Go, LightPage, ProblemNote } from './ui';

const topic = 'hello';
const group = 'hello-group';

/** The page after the sign-up: what to connect with, a first message from here, and code for the next one. */
export function Start() {
  const { t } = useTranslation();
  const { query } = useAddress();
  const [namespace, setNamespace] = useState<Schemas['Namespace']>();
  const [problem, setProblem] = useState<ApiProblem>();
  const [keyId, setKeyId] = useState(newestKeyWithSecret);
  const [ownArrived, setOwnArrived] = useState<Schemas['Message']>();
  const wanted = query.get('ns');

  useEffect(() => {
    let gone = false;
    findNamespace(wanted).then(
      (ns) => !gone && setNamespace(ns),
      (err) => !gone && setProblem(asProblem(err)),
    );
    return () => {
      gone = true;
    };
  }, [wanted]);

  useEffect(
    () =>
      session.subscribe(() => {
        if (session.state === 'expired') {
          go(`/sign-in?next=${encodeURIComponent('/start')}`, 'replace');
        }
      }),
    [],
  );

  const tail = useTail(namespace?.id, topic, {
    keep: 50,
    onMessage: (m) => {
      if (!sentByConsole(m)) {
        setOwnArrived((before) => before ?? m);
      }
    },
  });

  const toConsole = (
    <Go to={namespace ? `/n/${namespace.id}/topics` : '/'} className="button plain small" data-testid="to-console">
      {t('start.to_console')}
    </Go>
  );

  return (
    <LightPage title={t('start.title')} wide actions={toConsole}>
      {problem && <ProblemNote problem={problem} />}
      {!namespace && !problem && (
        <p className="hint" aria-busy="true">
          {t('state.loading')}
        </p>
      )}
      {namespace && (
        <>
          <section aria-labelledby="connect" className="panel">
            <h2 id="connect">{t('start.connect')}</h2>
            <Connection namespace={namespace} keyId={keyId} onKey={setKeyId} />
          </section>
          <div className="two">
            <section aria-labelledby="send" className="panel">
              <h2 id="send">{t('start.send_title')}</h2>
              <SendFirst ns={namespace.id} tail={tail} />
            </section>
            <section aria-labelledby="arrivals" className="panel">
              <h2 id="arrivals">
                {t('start.tail_title', { topic })} <TailBadge state={tail.state} />
              </h2>
              <Arrivals tail={tail} />
            </section>
          </div>
          <section aria-labelledby="own" className={ownArrived ? 'panel own good' : 'panel own'} data-testid="own-code">
            <h2 id="own">{ownArrived ? t('start.own_arrived') : t('start.own_waiting')}</h2>
            <p role="status">
              {ownArrived
                ? t('start.own_arrived_text', { id: ownArrived.message_id })
                : t('start.own_waiting_text', { topic })}
            </p>
          </section>
          <section aria-labelledby="snippets" className="panel">
            <h2 id="snippets">{t('start.snippets')}</h2>
            <Snippets ns={namespace.id} topic={topic} group={group} keyId={keyId} />
          </section>
        </>
      )}
    </LightPage>
  );
}

async function findNamespace(wanted: string | null): Promise<Schemas['Namespace']> {
  if (wanted) {
    return got(api.GET('/v1/namespaces/{ns}', { params: { path: { ns: wanted } } }));
  }
  const all = await allPages((page_token) => got(api.GET('/v1/namespaces', { params: { query: { page_token } } })));
  const first = all[0];
  if (!first) {
    go('/namespaces', 'replace');
    return new Promise(() => undefined);
  }
  return first;
}

function Connection(props: {
  namespace: Schemas['Namespace'];
  keyId: string | undefined;
  onKey: (id: string) => void;
}) {
  const { t } = useTranslation();
  const { namespace, keyId } = props;
  const secret = secretOf(keyId);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ApiProblem>();

  async function makeKey() {
    setBusy(true);
    setProblem(undefined);
    try {
      const key = await got(
        api.POST('/v1/api-keys', {
          params: { query: { wait: '10s' } },
          body: {
            name: `quick-start ${new Date().toISOString().slice(0, 16)}`,
            scopes: [{ namespace_id: namespace.id, permissions: ['PUB', 'SUB'] }],
          },
        }),
      );
      if ('secret' in key) {
        rememberSecret(key.id, key.secret);
        props.onKey(key.id);
      }
    } catch (err) {
      setProblem(asProblem(err));
    } finally {
      setBusy(false);
    }
  }

  return (
    <>
      <dl className="facts">
        <Fact name={t('start.namespace')} value={namespace.id} shown={`${namespace.name} (${namespace.id})`} />
        <Fact name={t('start.topic')} value={topic} />
        <Fact name={t('start.remoting')} value={namespace.endpoints.remoting} />
        <Fact name={t('start.grpc')} value={namespace.endpoints.grpc} />
        {keyId && <Fact name={t('start.access_key')} value={keyId} />}
        {secret && <Fact name={t('start.secret_key')} value={secret} />}
      </dl>
      {secret ? (
        <p className="note warn">{t('start.secret_once')}</p>
      ) : (
        <div className="note plain">
          <p>{t('start.secret_gone')}</p>
          <Button kind="plain" busy={busy} onClick={makeKey}>
            {t('start.new_key')}
          </Button>
        </div>
      )}
      {problem && <ProblemNote problem={problem} />}
    </>
  );
}

function Fact({ name, value, shown }: { name: string; value: string; shown?: string }) {
  const { t } = useTranslation();
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <code>{shown ?? value}</code>
        <CopyButton text={value} label={t('copy.label', { what: name })} />
      </dd>
    </div>
  );
}

type Sent = { receipt: Schemas['MessageReceipt']; at: number };

function SendFirst({ ns, tail }: { ns: string; tail: Tail }) {
  const { t } = useTranslation();
  const [body, setBody] = useState(() => t('start.default_body'));
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ApiProblem>();
  const [sent, setSent] = useState<Sent>();
  const [took, setTook] = useState<number>();
  const ready = useReady(tail.state);
  const arrived = sent && tail.messages.some((m) => m.message_id === sent.receipt.message_id);

  useEffect(() => {
    if (arrived && sent) {
      setTook((before) => before ?? Math.round(performance.now() - sent.at));
    }
  }, [arrived, sent]);

  async function send() {
    setBusy(true);
    setProblem(undefined);
    setSent(undefined);
    setTook(undefined);
    try {
      // A message stored before the tail stands would not be seen to arrive.
      await ready();
      const at = performance.now();
      const receipt = await got(
        api.POST('/v1/namespaces/{ns}/topics/{topic}/messages', {
          params: { path: { ns, topic } },
          body: { body, properties: { [consoleMark.key]: consoleMark.value } },
        }),
      );
      if (receipt) {
        setSent({ receipt, at });
      }
    } catch (err) {
      setProblem(asProblem(err));
    } finally {
      setBusy(false);
    }
  }

  return (
    <>
      <div className="field">
        <label htmlFor="first-body">{t('start.body')}</label>
        <textarea id="first-body" rows={3} value={body} onChange={(e) => setBody(e.target.value)} />
      </div>
      <Button busy={busy} onClick={send} data-testid="send-first">
        {t('start.send')}
      </Button>
      {problem && <ProblemNote problem={problem} />}
      <div role="status" className="progress">
        {sent && (
          <p>
            {t('start.stored', { queue: String(sent.receipt.queue), offset: sent.receipt.offset })}{' '}
            <code>{sent.receipt.message_id}</code>
          </p>
        )}
        {arrived && (
          <p className="good-text" data-testid="first-arrived">
            {t('start.arrived', { ms: String(took ?? 0) })}
          </p>
        )}
      </div>
    </>
  );
}

/** A function that waits until the tail stands, but not for long: sending must work also when watching does not. */
function useReady(state: TailState): () => Promise<void> {
  const now = useRef(state);
  const waiting = useRef<(() => void)[]>([]);
  now.current = state;
  useEffect(() => {
    if (state === 'open' || state === 'failed') {
      for (const go of waiting.current.splice(0)) {
        go();
      }
    }
  }, [state]);
  return () =>
    now.current === 'open' || now.current === 'failed'
      ? Promise.resolve()
      : new Promise((resolve) => {
          waiting.current.push(resolve);
          setTimeout(resolve, 3000);
        });
}

function TailBadge({ state }: { state: TailState }) {
  const { t } = useTranslation();
  return (
    <span className={`badge ${state}`} role="status">
      {t(`tail.${state}`)}
    </span>
  );
}

function Arrivals({ tail }: { tail: Tail }) {
  const { t, i18n } = useTranslation();
  if (tail.problem) {
    return <ProblemNote problem={tail.problem} />;
  }
  if (tail.messages.length === 0) {
    return <p className="hint">{t('start.tail_empty')}</p>;
  }
  return (
    <ol className="arrivals" aria-live="polite" data-testid="arrivals">
      {tail.messages.map((m) => (
        <li key={`${m.queue}-${m.offset}`}>
          <time dateTime={m.stored_at}>{formatTime(m.stored_at, i18n.language)}</time>
          <span className="origin">{sentByConsole(m) ? t('start.from_console') : t('start.from_code')}</span>
          <code className="body">{m.body.slice(0, 500)}</code>
        </li>
      ))}
    </ol>
  );
}
