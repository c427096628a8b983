import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { App, Button, Input } from 'antd';
import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../../api/client';
import { asProblem } from '../../api/problem';
import { formatQuantity, isCostUnit, isMeter, isUsualPrice } from '../../lib/cost';
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
  const running = new Date().toISOString().slice(0, 7);
  const shown = month ?? running;
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
        `sluice-costs-${shown}.csv`,
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
        <MonthField
          value={shown}
          onChange={(v) => void navigate({ search: compact({ month: v === running ? undefined : v }) })}
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
                    {
                      title: t('costs.meter'),
                      render: (_, l) =>
                        isMeter(l.meter) ? (
                          <span title={l.meter}>{t(`meter.${l.meter}`)}</span>
                        ) : (
                          <code>{l.meter}</code>
                        ),
                    },
                    {
                      title: t('costs.unit'),
                      render: (_, l) =>
                        isCostUnit(l.unit) ? (
                          <span title={l.unit}>{t(`cost_unit.${l.unit}`)}</span>
                        ) : (
                          <code>{l.unit}</code>
                        ),
                    },
                    { title: t('costs.quantity'), align: 'end', render: (_, l) => <Quantity n={l.quantity} of={l} /> },
                    { title: t('costs.included'), align: 'end', render: (_, l) => <Quantity n={l.included} of={l} /> },
                    { title: t('costs.billable'), align: 'end', render: (_, l) => <Quantity n={l.billable} of={l} /> },
                    {
                      title: t('costs.price'),
                      align: 'end',
                      render: (_, l) => <Price line={l} currency={c.currency} />,
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

/** The month in the field. While it is being typed it need not be one; leaving the field brings back the one shown. */
function MonthField({ value, onChange }: { value: string; onChange: (month: string) => void }) {
  const { t } = useTranslation();
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  return (
    <Input
      type="month"
      className="filter"
      aria-label={t('costs.month')}
      min="2020-01"
      value={typed}
      onChange={(e) => {
        setTyped(e.target.value);
        const { month } = costsSearch({ month: e.target.value });
        if (month) {
          onChange(month);
        }
      }}
      onBlur={() => setTyped(value)}
    />
  );
}

function Quantity({ n, of }: { n: string; of: Schemas['CostLine'] }) {
  const { t } = useTranslation();
  const locale = useLocale();
  return isCostUnit(of.unit) ? (
    <span title={t(`cost_exact.${of.unit}`, { n: formatCount(n, locale) })}>{formatQuantity(n, of.unit, locale)}</span>
  ) : (
    formatCount(n, locale)
  );
}

function Price({ line, currency }: { line: Schemas['CostLine']; currency: string }) {
  const { t } = useTranslation();
  const locale = useLocale();
  const price = formatMicros(line.unit_price_micros, currency, locale);
  const exact = t('costs.price_per', { price, n: `${formatCount(line.price_per, locale)} ${line.unit}` });
  return isCostUnit(line.unit) && isUsualPrice(line.unit, line.price_per) ? (
    <span title={exact}>{t(`cost_price.${line.unit}`, { price })}</span>
  ) : (
    exact
  );
}
