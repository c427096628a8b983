import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { App, Button, Input } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../../api/client';
import { asProblem } from '../../api/problem';
import { formatAmount, formatCount, formatMicros } from '../../lib/format';
import { saveAnswer, useLocale } from '../data';
import { compact, costsSearch } from '../search';
import { Badge, DataTable, Nothing, Outcome, PageHead, Time } from '../ui';

const route = getRouteApi('/costs');

export function Costs() {
  const { t } = useTranslation();
  const locale = useLocale();
  const { message } = App.useApp();
  const { month } = route.useSearch();
  const navigate = route.useNavigate();
  const [saving, setSaving] = useState(false);
  const query = useQuery({
    queryKey: ['costs', month],
    queryFn: ({ signal }) => got(api.GET('/v1/costs', { params: { query: { month } }, signal })),
    placeholderData: keepPreviousData,
  });

  async function saveCsv() {
    setSaving(true);
    try {
      await saveAnswer(
        api.GET('/v1/costs.csv', { params: { query: { month } }, parseAs: 'text' }),
        `sluice-costs-${month ?? new Date().toISOString().slice(0, 7)}.csv`,
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
        title={t('costs.title')}
        lead={t('costs.lead')}
        actions={
          <Button loading={saving} onClick={saveCsv}>
            {t('usage.csv')}
          </Button>
        }
      />
      <search className="filters">
        <Input
          type="month"
          className="filter"
          aria-label={t('costs.month')}
          min="2020-01"
          value={month ?? ''}
          onChange={(e) => void navigate({ search: compact(costsSearch({ month: e.target.value })) })}
        />
      </search>
      <Outcome query={query}>
        {(c) => {
          const money = (amount: string) => formatAmount(amount, c.minor_unit_digits, c.currency, locale);
          return (
            <>
              <p>
                <strong className="figure" data-testid="cost-total">
                  {money(c.total)}
                </strong>{' '}
                <Badge tone={c.final ? 'good' : 'plain'}>{c.final ? t('costs.final') : t('costs.running')}</Badge>
              </p>
              <p className="muted">
                <Time at={c.from} /> {'–'} <Time at={c.to} />
              </p>
              <p className="muted">
                {t('usage.complete_through')} <Time at={c.complete_through} />
              </p>
              {c.lines.length === 0 ? (
                <Nothing text={t('costs.empty')} />
              ) : (
                <DataTable<Schemas['CostLine']>
                  label={t('costs.title')}
                  rowKey="meter"
                  dataSource={c.lines}
                  pagination={false}
                  columns={[
                    { title: t('costs.meter'), render: (_, l) => <code>{l.meter}</code> },
                    { title: t('costs.unit'), dataIndex: 'unit' },
                    { title: t('costs.quantity'), align: 'end', render: (_, l) => formatCount(l.quantity, locale) },
                    { title: t('costs.included'), align: 'end', render: (_, l) => formatCount(l.included, locale) },
                    { title: t('costs.billable'), align: 'end', render: (_, l) => formatCount(l.billable, locale) },
                    {
                      title: t('costs.price'),
                      align: 'end',
                      render: (_, l) =>
                        t('costs.price_per', {
                          price: formatMicros(l.unit_price_micros, c.currency, locale),
                          n: formatCount(l.price_per, locale),
                        }),
                    },
                    {
                      title: t('costs.amount'),
                      align: 'end',
                      render: (_, l) => (
                        <span title={formatMicros(l.amount_micros, c.currency, locale)}>{money(l.amount)}</span>
                      ),
                    },
                  ]}
                />
              )}
            </>
          );
        }}
      </Outcome>
    </>
  );
}
