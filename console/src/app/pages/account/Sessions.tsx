import { useQuery, useQueryClient } from '@tanstack/react-query';
import { App, Button } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { allPages, api, etag, got, type Schemas } from '../../../api/client';
import { type ApiProblem, asProblem } from '../../../api/problem';
import { deviceName } from '../../../lib/device';
import { Badge, DataTable, Outcome, ProblemView, Time } from '../../ui';

/** Where the person is signed in. */
export function Sessions() {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const [busy, setBusy] = useState<string>();
  const [problem, setProblem] = useState<ApiProblem>();
  const query = useQuery({
    queryKey: ['sessions'],
    queryFn: ({ signal }) =>
      allPages((page_token) => got(api.GET('/v1/sessions', { params: { query: { page_token } }, signal }))),
  });

  async function end(what: string, run: () => Promise<string>) {
    setBusy(what);
    setProblem(undefined);
    try {
      void message.success(await run());
    } catch (err) {
      setProblem(asProblem(err));
    } finally {
      setBusy(undefined);
      await queries.invalidateQueries({ queryKey: ['sessions'] });
    }
  }

  const endOne = (s: Schemas['LiveSession']) =>
    end(s.id, async () => {
      await got(api.DELETE('/v1/sessions/{id}', { params: { path: { id: s.id }, header: { 'If-Match': etag(s) } } }));
      return t('sessions.ended', { n: '1' });
    });
  const endOthers = () =>
    end('others', async () => {
      const { ended } = await got(api.POST('/v1/sessions/actions/end-others'));
      return t('sessions.ended', { n: String(ended) });
    });

  return (
    <>
      {problem && <ProblemView problem={problem} />}
      <Outcome query={query}>
        {(items) => (
          <>
            <DataTable<Schemas['LiveSession']>
              label={t('sessions.title')}
              rowKey="id"
              size="small"
              dataSource={items}
              pagination={false}
              columns={[
                {
                  title: t('sessions.device'),
                  render: (_, s) => (
                    <>
                      <span className="clip" title={s.user_agent}>
                        {deviceName(s.user_agent) || t('state.none')}
                      </span>{' '}
                      {s.current && <Badge tone="good">{t('sessions.current')}</Badge>}
                    </>
                  ),
                },
                { title: t('sessions.address'), render: (_, s) => <code>{s.address}</code> },
                { title: t('sessions.begun'), render: (_, s) => <Time at={s.created_at} /> },
                { title: t('keys.last_used'), render: (_, s) => <Time at={s.last_used_at} /> },
                {
                  title: t('field.actions'),
                  className: 'stays',
                  render: (_, s) =>
                    s.current ? null : (
                      <Button
                        size="small"
                        danger
                        loading={busy === s.id}
                        aria-label={t('sessions.end_one', { device: deviceName(s.user_agent), address: s.address })}
                        onClick={() => void endOne(s)}
                      >
                        {t('sessions.end')}
                      </Button>
                    ),
                },
              ]}
            />
            <Button
              className="gap top"
              disabled={items.every((s) => s.current)}
              loading={busy === 'others'}
              onClick={() => void endOthers()}
              data-testid="end-others"
            >
              {t('sessions.end_others')}
            </Button>
          </>
        )}
      </Outcome>
    </>
  );
}
