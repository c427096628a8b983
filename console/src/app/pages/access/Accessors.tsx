import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Button, Tooltip } from 'antd';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../../../api/client';
import { asProblem } from '../../../api/problem';
import { Badge, Copyable, DataTable, Nothing, ProblemView } from '../../ui';

/** Who can touch one topic or group, and what makes it so. */
export function Accessors(props: { ns: string; resource: Schemas['AclObject']; name: string }) {
  const { t } = useTranslation();
  const { ns, resource, name } = props;
  const query = useInfiniteQuery({
    queryKey: ['access', ns, resource, name],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ signal, pageParam }) =>
      got(
        api.GET('/v1/namespaces/{ns}/access', {
          params: { path: { ns }, query: { resource, name, page_size: 200, page_token: pageParam } },
          signal,
        }),
      ),
    getNextPageParam: (last) => last.next_page_token,
  });
  const items = query.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <>
      <p className="muted">{t('access.who_lead')}</p>
      <p>
        <Link to="/n/$ns/access" params={{ ns }}>
          {t('nav.access')}
        </Link>
      </p>
      {query.isError && <ProblemView problem={asProblem(query.error)} onRetry={() => void query.refetch()} />}
      {query.isPending && <p role="status">{t('state.loading')}</p>}
      {query.isSuccess && items.length === 0 && !query.hasNextPage && <Nothing text={t('access.nobody')} />}
      {items.length > 0 && (
        <DataTable<Schemas['Accessor']>
          label={t('access.who')}
          rowKey="id"
          dataSource={items}
          pagination={false}
          columns={[
            { title: t('field.name'), dataIndex: 'name' },
            { title: t('access.kind'), render: (_, a) => <Badge>{t(`accessor.${a.kind}`)}</Badge> },
            { title: t('field.id'), render: (_, a) => <Copyable text={a.id} what={t('field.id')} /> },
            {
              title: t('access.may'),
              render: (_, a) =>
                a.operations.map((o) => (
                  <Tooltip key={o.operation} title={o.rule_id}>
                    <div>
                      {t(`permission.${o.operation}`)} <span className="muted">{t(`decider.${o.decided_by}`)}</span>
                    </div>
                  </Tooltip>
                )),
            },
          ]}
        />
      )}
      {query.hasNextPage && (
        <Button className="gap top" loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          {t('access.more')}
        </Button>
      )}
    </>
  );
}
