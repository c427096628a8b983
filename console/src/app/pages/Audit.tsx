import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { Alert, AutoComplete, Button, Descriptions, Input, Tooltip } from 'antd';
import { useEffect, useId, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../../api/client';
import { type ApiProblem, asProblem } from '../../api/problem';
import { usePrincipalName } from '../data';
import { Listing } from '../Listing';
import { fromLocalInput, toLocalInput } from '../localTime';
import { type AuditSearch, compact } from '../search';
import { Badge, Copyable, PageHead, ProblemView, Time } from '../ui';
import { useSettled } from '../useSettled';
import { Export } from './audit/Export';
import { auditQuery } from './audit/query';
import { useActionOptions, useActionText, useObjectText } from './audit/texts';
import { usePrincipalOptions } from './roles/BindDialog';

const route = getRouteApi('/audit');

/** What was done in the tenant and by whom, and whether the record is whole. */
export function Audit() {
  const { t } = useTranslation();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useQuery({
    queryKey: ['audit', search],
    queryFn: ({ signal }) =>
      got(
        api.GET('/v1/audit-events', {
          params: {
            query: { ...auditQuery(search), page_token: search.page },
          },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
  const actionText = useActionText();
  const objectText = useObjectText();
  const actions = useActionOptions();
  const nameOf = usePrincipalName();
  const principals = usePrincipalOptions().flatMap((g) => g.options);
  const show = (next: AuditSearch) => void navigate({ search: compact({ ...next, page: undefined }), replace: true });
  return (
    <>
      <PageHead title={t('audit.title')} lead={t('audit.lead')} />
      <Verify />
      <search className="filters">
        <Filter
          label={t('audit.actor')}
          value={search.actor}
          valid={/^\w+$/}
          options={principals}
          onChange={(actor) => show({ ...search, actor })}
        />
        <Filter
          label={t('audit.action')}
          value={search.action}
          valid={/^[a-z][A-Za-z0-9]*$/}
          options={actions}
          onChange={(action) => show({ ...search, action })}
        />
        <Filter
          label={t('audit.target')}
          value={search.target}
          valid={/^[\w-]+$/}
          onChange={(target) => show({ ...search, target })}
        />
        <Input
          type="datetime-local"
          className="filter"
          aria-label={t('field.from')}
          value={toLocalInput(search.from) ?? ''}
          onChange={(e) => show({ ...search, from: fromLocalInput(e.target.value) })}
        />
        <Input
          type="datetime-local"
          className="filter"
          aria-label={t('field.to')}
          value={toLocalInput(search.to) ?? ''}
          onChange={(e) => show({ ...search, to: fromLocalInput(e.target.value) })}
        />
      </search>
      <Listing<Schemas['AuditEvent']>
        query={query}
        label={t('audit.title')}
        empty={t('audit.empty')}
        onClear={Object.keys(search).length > 0 ? () => void navigate({ search: {} }) : undefined}
        page={search.page}
        onPage={(page) => void navigate({ search: compact({ ...search, page }) })}
        expandable={{ expandedRowRender: (e) => <Details event={e} /> }}
        columns={[
          { title: t('audit.at'), render: (_, e) => <Time at={e.at} /> },
          {
            title: t('audit.actor'),
            render: (_, e) => (
              <>
                <Badge tone={e.actor_type === 'operator' ? 'warn' : 'plain'}>{t(`actor.${e.actor_type}`)}</Badge>
                <div>
                  <Who id={e.actor_id} name={nameOf(e.actor_id)} />
                </div>
              </>
            ),
          },
          {
            title: t('audit.action'),
            render: (_, e) => (
              <>
                <span title={e.action}>{actionText(e.action)}</span> <Refusal event={e} />
              </>
            ),
          },
          {
            title: t('audit.target'),
            render: (_, e) => (
              <>
                {objectText(e.target_type)} {e.target_id && <Short id={e.target_id} />}
              </>
            ),
          },
          { title: t('sessions.address'), render: (_, e) => <code>{e.source_ip}</code> },
        ]}
      />
      <h2>{t('audit.export_title')}</h2>
      <p className="muted">{t('audit.export_lead')}</p>
      <div className="filters">
        <Export search={search} />
      </div>
      <p className="muted">
        {t('audit.export')} <code>{'GET /v1/audit-events'}</code>
      </p>
    </>
  );
}

function Short({ id }: { id: string }) {
  return (
    <Tooltip title={id}>
      <code>{id.length > 16 ? `${id.slice(0, 4)}…${id.slice(-6)}` : id}</code>
    </Tooltip>
  );
}

/** A name where there is one; the id is a hover and a copy away. */
function Who({ id, name }: { id: string; name: string }) {
  return name === id ? <Short id={id} /> : <span title={id}>{name}</span>;
}

/** That it was refused, why, and how often where refusals are counted into one event. */
function Refusal({ event: e }: { event: Schemas['AuditEvent'] }) {
  const { t, i18n } = useTranslation();
  if (e.decision !== 'denied') {
    return null;
  }
  const why = `problem.code.${e.reason}` as 'problem.code.permission_denied';
  return (
    <>
      <Badge tone="bad">
        {e.count && e.count > 1 ? t('audit.denied_times', { n: String(e.count) }) : t('audit.denied')}
      </Badge>
      {e.reason && <div className="muted">{i18n.exists(why) ? t(why) : e.reason}</div>}
      {e.first_at && e.count && e.count > 1 && (
        <div className="muted">
          {t('audit.since')} <Time at={e.first_at} />
        </div>
      )}
    </>
  );
}

function Details({ event: e }: { event: Schemas['AuditEvent'] }) {
  const { t } = useTranslation();
  const rows: [string, string | undefined][] = [
    [t('audit.action'), e.action],
    [t('audit.actor'), e.actor_id],
    [t('dimension.api_key'), e.api_key_id],
    [t('audit.target'), e.target_id],
    [t('nav.namespace'), e.namespace_id],
    [t('audit.reason'), e.reason],
    [t('audit.count'), e.count === undefined ? undefined : String(e.count)],
    [t('audit.first'), e.first_at],
    [t('problem.request_id'), e.request_id],
    [t('audit.before'), e.before_hash],
    [t('audit.after'), e.after_hash],
    [t('audit.number'), e.sequence === undefined ? undefined : String(e.sequence)],
    [t('audit.hash'), e.hash],
    [t('audit.previous'), e.previous_hash],
  ];
  return (
    <>
      <Descriptions
        size="small"
        column={1}
        items={rows
          .filter(([, text]) => text)
          .map(([what, text]) => ({ key: what, label: what, children: <Copyable text={text ?? ''} what={what} /> }))}
      />
      <p className="muted">{t('audit.fingerprints')}</p>
    </>
  );
}

/** Typed or chosen; what the API would not take is marked and not asked for. */
function Filter(props: {
  label: string;
  value: string | undefined;
  valid: RegExp;
  options?: { value: string; label: string }[];
  onChange: (v: string | undefined) => void;
}) {
  const [typed, setTyped] = useState(props.value ?? '');
  const wanted = typed.trim();
  const wrong = wanted !== '' && !props.valid.test(wanted);
  useSettled(wanted, 400, (v) => {
    if (v !== (props.value ?? '') && (v === '' || props.valid.test(v))) {
      props.onChange(v || undefined);
    }
  });
  useEffect(() => setTyped(props.value ?? ''), [props.value]);
  return (
    <AutoComplete
      allowClear
      className="filter"
      aria-label={props.label}
      placeholder={props.label}
      status={wrong ? 'error' : undefined}
      popupMatchSelectWidth={false}
      maxLength={128}
      value={typed}
      options={props.options}
      showSearch={{ filterOption: (text, o) => `${o?.label}`.toLowerCase().includes(text.toLowerCase()) }}
      onChange={(v) => setTyped(v ?? '')}
    />
  );
}

/** Checks the chain, and against the head of an earlier check that was kept by the reader. */
function Verify() {
  const { t } = useTranslation();
  const id = useId();
  const [known, setKnown] = useState('');
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState(false);
  const [outcome, setOutcome] = useState<Schemas['AuditVerification']>();
  const [problem, setProblem] = useState<ApiProblem>();

  async function verify() {
    const head = /^\s*(\d{1,15})\s*:\s*([0-9a-f]{64})\s*$/.exec(known);
    setWrong(known.trim() !== '' && !head);
    if (known.trim() !== '' && !head) {
      return;
    }
    setBusy(true);
    setProblem(undefined);
    setOutcome(undefined);
    try {
      const body = head ? { known: [{ sequence: Number(head[1]), hash: head[2] as string }] } : {};
      setOutcome(await got(api.POST('/v1/audit-events/actions/verify', { body })));
    } catch (err) {
      setProblem(asProblem(err));
    } finally {
      setBusy(false);
    }
  }

  return (
    <section aria-labelledby={id} className="gap">
      <h2 id={id}>{t('audit.verify_title')}</h2>
      <p className="muted">{t('audit.verify_lead')}</p>
      {problem && <ProblemView problem={problem} />}
      <div className="filters">
        <Input
          className="wide"
          style={{ flex: '1 1 20rem' }}
          aria-label={t('audit.known')}
          placeholder={t('audit.known')}
          status={wrong ? 'error' : undefined}
          aria-invalid={wrong || undefined}
          value={known}
          onChange={(e) => setKnown(e.target.value)}
        />
        <Button loading={busy} onClick={() => void verify()} data-testid="verify-audit">
          {t('audit.verify')}
        </Button>
      </div>
      {wrong && <p role="alert">{t('audit.known_wrong')}</p>}
      <div aria-live="polite" data-testid="verification">
        {outcome && (
          <Alert
            type={outcome.intact ? 'success' : 'error'}
            showIcon
            title={
              outcome.intact
                ? t('audit.intact', { n: String(outcome.events) })
                : t('audit.broken', { n: String(outcome.broken_at ?? '') })
            }
            description={
              <>
                {outcome.problem && <p>{outcome.problem}</p>}
                {outcome.head && (
                  <p>
                    {t('audit.keep_head')}{' '}
                    <Copyable text={`${outcome.head.sequence}:${outcome.head.hash}`} what={t('audit.head')} />
                  </p>
                )}
              </>
            }
          />
        )}
      </div>
    </section>
  );
}
