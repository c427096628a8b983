import type { UseQueryResult } from '@tanstack/react-query';
import {
  Alert,
  Button,
  type ButtonProps,
  Empty,
  Input,
  Modal,
  Result,
  Skeleton,
  Space,
  Table,
  type TableProps,
  Tabs,
  Tooltip,
} from 'antd';
import { type ReactNode, useId, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { Schemas } from '../api/client';
import { type ApiProblem, asProblem } from '../api/problem';
import { formatTime } from '../lib/format';
import { useProblemText } from '../lib/useProblemText';
import { CopyButton, useTitle } from '../light/ui';
import { useLocale } from './data';

export { CopyButton };

export function PageHead(props: { title: string; lead?: ReactNode; tags?: ReactNode; actions?: ReactNode }) {
  useTitle(props.title);
  return (
    <div className="page-head">
      <div>
        <h1>
          {props.title} {props.tags}
        </h1>
        {props.lead && <p className="muted">{props.lead}</p>}
      </div>
      {props.actions && <div className="page-actions">{props.actions}</div>}
    </div>
  );
}

/** The head of a part of a page, with what can be done in it. */
export function SectionHead(props: { title: string; lead?: ReactNode; actions?: ReactNode }) {
  return (
    <div className="page-head section">
      <div>
        <h2>{props.title}</h2>
        {props.lead && <p className="muted">{props.lead}</p>}
      </div>
      {props.actions && <div className="page-actions">{props.actions}</div>}
    </div>
  );
}

/** Shows what came of a query. Waiting, refused, missing, failed, out of date and empty each look different. */
export function Outcome<T>(props: {
  query: UseQueryResult<T>;
  isEmpty?: (data: T) => boolean;
  empty?: ReactNode;
  children: (data: T) => ReactNode;
}) {
  const { t } = useTranslation();
  const { query } = props;
  if (query.data === undefined) {
    if (query.isError) {
      return <ProblemView problem={asProblem(query.error)} onRetry={() => void query.refetch()} />;
    }
    return (
      <div role="status" aria-busy="true" aria-label={t('state.loading')} data-testid="loading">
        <Skeleton active title={false} paragraph={{ rows: 6 }} />
      </div>
    );
  }
  return (
    <>
      {query.isError && <StaleNote problem={asProblem(query.error)} at={query.dataUpdatedAt} />}
      {props.isEmpty?.(query.data) ? props.empty : props.children(query.data)}
    </>
  );
}

function StaleNote({ problem, at }: { problem: ApiProblem; at: number }) {
  const { t } = useTranslation();
  const locale = useLocale();
  const text = useProblemText(problem);
  return (
    <Alert
      type="warning"
      showIcon
      className="gap"
      title={t('state.stale', { time: formatTime(at, locale) })}
      description={text.title}
    />
  );
}

/** A button for what the user may do, and nothing for what the server would refuse. */
export function MayButton({ may, ...button }: { may: boolean } & ButtonProps) {
  return may ? <Button {...button} /> : null;
}

export function Nothing({ text, children }: { text: string; children?: ReactNode }) {
  return (
    <div data-testid="empty">
      <Empty image={Empty.PRESENTED_IMAGE_SIMPLE} description={text}>
        {children}
      </Empty>
    </div>
  );
}

export function ProblemView({ problem, onRetry }: { problem: ApiProblem; onRetry?: () => void }) {
  const { t } = useTranslation();
  const text = useProblemText(problem);
  const retry = onRetry && <Button onClick={onRetry}>{t('state.retry')}</Button>;
  const id = <RequestId problem={problem} />;
  if (problem.kind === 'refused' || problem.kind === 'missing') {
    return (
      <div data-testid={problem.kind} role="alert">
        <Result
          status={problem.kind === 'refused' ? 'warning' : 'info'}
          title={text.title}
          subTitle={text.detail}
          extra={id}
        />
      </div>
    );
  }
  return (
    <Alert
      data-testid="failed"
      role="alert"
      type="error"
      showIcon
      className="gap"
      title={text.title}
      description={
        <>
          <p>{text.detail}</p>
          {id}
        </>
      }
      action={retry}
    />
  );
}

export function RequestId({ problem }: { problem: ApiProblem }) {
  const { t } = useTranslation();
  if (!problem.requestId) {
    return null;
  }
  return (
    <p className="request-id">
      {t('problem.request_id')} <code>{problem.requestId}</code>{' '}
      <CopyButton text={problem.requestId} label={t('copy.label', { what: t('problem.request_id') })} />
    </p>
  );
}

/** A time in the user's zone, which it names; copying or hovering gives the ISO form. */
export function Time({ at }: { at: string | undefined }) {
  const { t } = useTranslation();
  const locale = useLocale();
  if (!at) {
    return <span className="muted">{t('state.never')}</span>;
  }
  return (
    <time dateTime={at} title={at}>
      {formatTime(at, locale)}
    </time>
  );
}

/**
 * A table that scrolls inside its own region when it is wider than the page; the keyboard can scroll it too. A column
 * with the class `stays` does not scroll away.
 */
export function DataTable<T extends object>({ label, ...table }: { label: string } & TableProps<T>) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: wide tables scroll, and the keyboard must be able to do it
    <section className="table-scroll" aria-label={label} tabIndex={0}>
      <Table<T> size="medium" {...table} />
    </section>
  );
}

/** A word on a coloured ground; the colours are tokens with enough contrast in both themes. */
export function Badge({ tone = 'plain', children }: { tone?: 'plain' | 'good' | 'warn' | 'bad'; children: ReactNode }) {
  return <span className={`tag ${tone}`}>{children}</span>;
}

export function Phase({ status }: { status: Schemas['ResourceStatus'] }) {
  const { t } = useTranslation();
  const tone = { ready: 'good', pending: 'warn', failed: 'bad' } as const;
  const tag = <Badge tone={tone[status.phase]}>{t(`phase.${status.phase}`)}</Badge>;
  return status.reason ? <Tooltip title={status.reason}>{tag}</Tooltip> : tag;
}

export function Copyable({ text, what }: { text: string; what: string }) {
  const { t } = useTranslation();
  return (
    <span className="copyable">
      <code>{text}</code> <CopyButton text={text} label={t('copy.label', { what })} />
    </span>
  );
}

const pageBefore = new Map<string, string | undefined>();

/** Moves between pages of the server. It knows no total, so it says whether there is more. */
export function Pager(props: {
  shown: number;
  page: string | undefined;
  next: string | undefined;
  onPage: (token: string | undefined) => void;
}) {
  const { t } = useTranslation();
  const { page, next } = props;
  return (
    <nav className="pager" aria-label={t('pager.label')}>
      <span className="muted" role="status">
        {t(next ? 'pager.more' : page ? 'pager.last' : 'pager.all', { n: String(props.shown) })}
      </span>
      <Space>
        <Button disabled={!page} onClick={() => props.onPage(undefined)}>
          {t('pager.first')}
        </Button>
        <Button
          disabled={!page || !pageBefore.has(page)}
          onClick={() => props.onPage(page ? pageBefore.get(page) : undefined)}
        >
          {t('pager.previous')}
        </Button>
        <Button
          disabled={!next}
          onClick={() => {
            if (next) {
              pageBefore.set(next, page);
              props.onPage(next);
            }
          }}
        >
          {t('pager.next')}
        </Button>
      </Space>
    </nav>
  );
}

export function Code({ text, title }: { text: string; title: string }) {
  const { t } = useTranslation();
  return (
    <div className="code-box">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll, and the keyboard must be able to do it */}
      <pre tabIndex={0}>{text}</pre>
      <CopyButton text={text} label={t('copy.label', { what: title })} />
    </div>
  );
}

/** The same change as a command and as Terraform. */
export function AsCode({ cli, hcl }: { cli: string | undefined; hcl: string }) {
  const { t } = useTranslation();
  return (
    <section aria-label={t('as_code.title')} className="as-code">
      <Tabs
        size="small"
        items={[
          {
            key: 'cli',
            label: t('as_code.cli'),
            children: cli ? <Code text={cli} title={t('as_code.cli')} /> : <p>{t('as_code.no_cli')}</p>,
          },
          { key: 'hcl', label: t('as_code.hcl'), children: <Code text={hcl} title={t('as_code.hcl')} /> },
        ]}
      />
    </section>
  );
}

/** Asks for the name of what is to be destroyed before it lets anybody do it. */
export function ConfirmByName(props: {
  open: boolean;
  title: string;
  text: ReactNode;
  name: string;
  action: string;
  run: () => Promise<void>;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const id = useId();
  const [typed, setTyped] = useState('');
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ApiProblem>();

  function close() {
    setTyped('');
    setProblem(undefined);
    props.onClose();
  }

  async function run() {
    if (typed !== props.name || busy) {
      return;
    }
    setBusy(true);
    setProblem(undefined);
    try {
      await props.run();
      close();
    } catch (err) {
      setProblem(asProblem(err));
    } finally {
      setBusy(false);
    }
  }

  return (
    <Modal
      open={props.open}
      title={props.title}
      okText={props.action}
      okButtonProps={{ danger: true, disabled: typed !== props.name, loading: busy }}
      cancelText={t('action.cancel')}
      onOk={run}
      onCancel={close}
      destroyOnHidden
    >
      {typeof props.text === 'string' ? <p>{props.text}</p> : props.text}
      {problem && <ProblemView problem={problem} />}
      <label htmlFor={id}>{t('confirm.type_name', { name: props.name })}</label>
      <Input
        id={id}
        value={typed}
        autoComplete="off"
        data-testid="confirm-name"
        onChange={(e) => setTyped(e.target.value)}
        onPressEnter={run}
      />
    </Modal>
  );
}
