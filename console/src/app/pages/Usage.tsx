import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { App, Button, Input, Segmented, Select } from 'antd';
import { useCallback, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../../api/client';
import { asProblem } from '../../api/problem';
import { formatBytes, formatCount } from '../../lib/format';
import { saveAnswer, useLocale, useNamespaces, useTopicText } from '../data';
import { fromLocalInput, toLocalInput } from '../localTime';
import { compact, dimensions, grains, metrics, ranges, type UsageSearch } from '../search';
import { DataTable, Nothing, Outcome, PageHead, Pager, Time } from '../ui';
import { chartOf, type Metric, periodOf, rowName } from '../usage';
import { UsageChart } from './UsageChart';

const route = getRouteApi('/usage');

export function Usage() {
  const { t } = useTranslation();
  const locale = useLocale();
  const { message } = App.useApp();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const namespaces = useNamespaces();
  const [loadedAt, setLoadedAt] = useState(() => new Date());
  const [saving, setSaving] = useState(false);
  const range = search.range ?? '24h';
  const by = search.by ?? 'topic';
  const metric = search.metric ?? 'messages_in';
  const period = useMemo(() => periodOf(range, search, loadedAt), [range, search, loadedAt]);
  const asked = {
    from: period.from.toISOString(),
    to: period.to.toISOString(),
    grain: period.grain,
    group_by: [by],
    namespace_id: search.ns,
  };
  const query = useQuery({
    queryKey: ['usage', asked, search.page],
    queryFn: ({ signal }) =>
      got(
        api.GET('/v1/usage', {
          params: { query: { ...asked, page_size: 1000, page_token: search.page } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });

  function show(next: UsageSearch) {
    void navigate({ search: compact({ page: undefined, ...next }) });
  }

  // Within one hour or day the period stays the same, so the same query is asked again.
  function refresh() {
    setLoadedAt(new Date());
    void query.refetch();
  }

  async function saveCsv() {
    setSaving(true);
    try {
      await saveAnswer(
        api.GET('/v1/usage.csv', { params: { query: asked }, parseAs: 'text' }),
        `sluice-usage-${asked.from.slice(0, 10)}-${asked.to.slice(0, 10)}.csv`,
      );
    } catch (err) {
      const p = asProblem(err);
      void message.error(t('usage.csv_failed', { why: p.detail || p.title || p.code }));
    } finally {
      setSaving(false);
    }
  }

  return (
    <>
      <PageHead
        title={t('usage.title')}
        lead={t('usage.lead')}
        actions={
          <>
            <Button loading={query.isFetching} onClick={refresh}>
              {t('action.refresh')}
            </Button>
            <Button loading={saving} onClick={saveCsv} data-testid="usage-csv">
              {t('usage.csv')}
            </Button>
          </>
        }
      />
      <search className="filters">
        <Segmented
          aria-label={t('usage.range')}
          value={range}
          options={ranges.map((v) => ({ value: v, label: t(`range.${v}`) }))}
          onChange={(v) => {
            const next = v as typeof range;
            setLoadedAt(new Date());
            show(
              next === 'custom'
                ? { ...search, range: next, from: asked.from, to: asked.to, grain: undefined, page: undefined }
                : { ...search, range: next, from: undefined, to: undefined, grain: undefined, page: undefined },
            );
          }}
        />
        {range === 'custom' && (
          <CustomRange search={search} onChange={(part) => show({ ...search, ...part, page: undefined })} />
        )}
        <Select
          aria-label={t('usage.group_by')}
          className="filter"
          value={by}
          options={dimensions.map((v) => ({ value: v, label: t(`dimension.${v}`) }))}
          onChange={(v) => show({ ...search, by: v, page: undefined })}
        />
        <Select
          aria-label={t('usage.metric')}
          className="filter"
          value={metric}
          options={metrics.map((v) => ({ value: v, label: t(`metric.${v}`) }))}
          onChange={(v) => show({ ...search, metric: v })}
        />
        <Select
          allowClear
          aria-label={t('nav.namespace')}
          className="filter"
          placeholder={t('usage.all_namespaces')}
          value={search.ns}
          options={namespaces.data?.map((n) => ({ value: n.id, label: `${n.name} (${n.id})` }))}
          onChange={(v) => show({ ...search, ns: v, page: undefined })}
        />
      </search>
      <Outcome query={query}>
        {(d) => (
          <>
            <p className="muted" data-testid="complete-through">
              {t('usage.complete_through')} <Time at={d.complete_through} />
            </p>
            <Totals totals={d.totals} />
            {d.items.length === 0 && !d.next_page_token ? (
              <Nothing text={t('usage.empty')} />
            ) : (
              <Rows
                usage={d}
                by={by}
                metric={metric}
                locale={locale}
                page={search.page}
                onPage={(page) => show({ ...search, page })}
              />
            )}
          </>
        )}
      </Outcome>
    </>
  );
}

function CustomRange({ search, onChange }: { search: UsageSearch; onChange: (part: UsageSearch) => void }) {
  const { t } = useTranslation();
  return (
    <>
      <Input
        type="datetime-local"
        className="filter"
        aria-label={t('field.from')}
        defaultValue={toLocalInput(search.from)}
        onBlur={(e) => onChange({ from: fromLocalInput(e.target.value) ?? search.from })}
      />
      <Input
        type="datetime-local"
        className="filter"
        aria-label={t('field.to')}
        defaultValue={toLocalInput(search.to)}
        onBlur={(e) => onChange({ to: fromLocalInput(e.target.value) ?? search.to })}
      />
      <Select
        allowClear
        aria-label={t('usage.grain')}
        className="filter"
        placeholder={t('usage.grain')}
        value={search.grain}
        options={grains.map((v) => ({ value: v, label: t(`grain.${v}`) }))}
        onChange={(grain) => onChange({ grain })}
      />
    </>
  );
}

function show(metric: Metric, value: string, locale: string): string {
  return metric.startsWith('bytes') ? formatBytes(value, locale) : formatCount(value, locale);
}

function Totals({ totals }: { totals: Schemas['UsageCounters'] }) {
  const { t } = useTranslation();
  const locale = useLocale();
  return (
    <dl className="totals">
      {(['messages_in', 'messages_out', 'bytes_in', 'bytes_out', 'api_calls', 'rejected'] as const).map((m) => (
        <div key={m}>
          <dt>{t(`metric.${m}`)}</dt>
          <dd title={totals[m]} data-testid={`total-${m}`}>
            {show(m, totals[m], locale)}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Rows(props: {
  usage: Schemas['Usage'];
  by: NonNullable<UsageSearch['by']>;
  metric: Metric;
  locale: string;
  page: string | undefined;
  onPage: (page: string | undefined) => void;
}) {
  const { t } = useTranslation();
  const { usage, by, metric, locale } = props;
  const topicText = useTopicText();
  const chart = useMemo(
    () =>
      chartOf(usage.items, by, metric, usage, {
        none: t(`usage.no_${by}`),
        other: t('usage.others'),
        shown: by === 'topic' ? topicText : undefined,
      }),
    [usage, by, metric, t, topicText],
  );
  const format = useCallback((n: number) => show(metric, String(Math.round(n)), locale), [metric, locale]);
  const column = (m: Metric) => ({
    title: t(`metric.${m}`),
    align: 'end' as const,
    render: (_: unknown, r: Schemas['UsageRow']) => <span title={r[m]}>{show(m, r[m], locale)}</span>,
  });
  return (
    <>
      <UsageChart
        chart={chart}
        format={format}
        label={t('usage.chart_label', { metric: t(`metric.${metric}`), by: t(`dimension.${by}`) })}
      />
      {chart.others > 0 && <p className="muted">{t('usage.others_note', { n: String(chart.others) })}</p>}
      <DataTable<Schemas['UsageRow']>
        label={t('usage.title')}
        rowKey={(r) => `${r.from}/${r.namespace_id ?? ''}/${rowName(r, by) ?? ''}`}
        size="small"
        dataSource={usage.items}
        pagination={usage.items.length > 50 ? { pageSize: 50, showSizeChanger: false } : false}
        columns={[
          { title: t('usage.period'), render: (_, r) => <Time at={r.from} /> },
          {
            title: t(`dimension.${by}`),
            render: (_, r) => {
              const name = rowName(r, by);
              return name === undefined ? (
                <span className="muted">{t(`usage.no_${by}`)}</span>
              ) : (
                <span title={name}>{by === 'topic' ? topicText(name) : name}</span>
              );
            },
          },
          column('messages_in'),
          column('messages_out'),
          column('bytes_in'),
          column('bytes_out'),
          column('units4k_in'),
          column('units4k_out'),
          column('api_calls'),
          column('rejected'),
        ]}
      />
      <Pager shown={usage.items.length} page={props.page} next={usage.next_page_token} onPage={props.onPage} />
    </>
  );
}
