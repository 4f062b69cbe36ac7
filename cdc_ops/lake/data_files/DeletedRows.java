import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.delta.actions.Action;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.actions.DeletionVectorDescriptor;
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray;
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArrayFormat;
import org.apache.spark.sql.delta.deletionvectors.StoredBitmap;
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStore;
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStore$;
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStoreUtils;
import org.apache.spark.sql.delta.util.PathWithFileSystem;
import scala.Option;
import scala.Tuple2;

/**
 * Deletes rows of data files by Delta's deletion vectors, which stand in one file; what no commit names VACUUM removes.
 *
 * From Python each file would take twenty messages to the JVM. Janino compiles it (lake/spark/java.py), hence no generics.
 */
public final class DeletedRows {
    private final List actions = new ArrayList();
    private final List files = new ArrayList();
    private final List vectors = new ArrayList();
    private LongBuffer numbers;
    private Path table;
    private Configuration hadoop;
    private DeletionVectorStore store;
    private DeletionVectorStoreUtils.Writer writer;
    private final UUID id = UUID.randomUUID();

    /**
     * Looks which rows of files are there: deletion vectors may have deleted some of them.
     *
     * @param path The table.
     * @param configuration By which its file system is reached.
     * @param entries The files' entries of the log, one a line, each with the statistics that it has beside deleted rows.
     * @param rows For each entry how many of its rows are meant, and then their numbers in the file, from 0 on; 8 bytes each.
     * @return One byte for each of these rows, 1 if it is there.
     */
    public byte[] look(String path, Configuration configuration, String entries, byte[] rows) throws IOException {
        table = new Path(path);
        hadoop = configuration;
        store = DeletionVectorStore$.MODULE$.createInstance(hadoop);
        numbers = ByteBuffer.wrap(rows).asLongBuffer();
        byte[] there = new byte[numbers.remaining()];
        int seen = 0;
        for (String entry : entries.split("\n")) {
            AddFile file = (AddFile) Action.fromJson(entry);
            RoaringBitmapArray deleted = new RoaringBitmapArray();
            if (file.deletionVector() != null) {
                deleted.merge(StoredBitmap.create(file.deletionVector(), table).load(store));
            }
            files.add(file);
            vectors.add(deleted);
            for (long left = numbers.get(); left > 0; left--) {
                there[seen++] = (byte) (deleted.contains(numbers.get()) ? 0 : 1);
            }
        }
        return Arrays.copyOf(there, seen);
    }

    /**
     * Deletes rows.
     *
     * @param chosen One byte for each row that was looked at, 1 if it is to be deleted.
     */
    public void delete(byte[] chosen) throws IOException {
        numbers.rewind();
        int seen = 0;
        try {
            for (int place = 0; place < files.size(); place++) {
                RoaringBitmapArray deleted = (RoaringBitmapArray) vectors.get(place);
                for (long left = numbers.get(); left > 0; left--) {
                    long number = numbers.get();
                    if (chosen[seen++] == 1) {
                        deleted.add(number);
                    }
                }
                delete((AddFile) files.get(place), deleted);
            }
        } finally {
            if (writer != null) {
                writer.close();
            }
        }
    }

    private void delete(AddFile file, RoaringBitmapArray deleted) throws IOException {
        long before = file.deletionVector() == null ? 0 : file.deletionVector().cardinality();
        long after = deleted.cardinality();
        if (after == before) {
            return;
        }
        if (after == ((Long) file.numPhysicalRecords().get()).longValue()) {
            actions.add(file.remove());
        } else {
            Tuple2 changed = file.removeRows(written(deleted), false, true); // its entry tells already: Delta would print it by doubles
            actions.add(changed._1());
            actions.add(changed._2());
        }
    }

    private DeletionVectorDescriptor written(RoaringBitmapArray deleted) throws IOException {
        if (writer == null) {
            writer = store.createWriter(store.generateFileNameInTable(PathWithFileSystem.withConf(table, hadoop), id, ""));
        }
        deleted.runOptimize();
        byte[] content = deleted.serializeAsByteArray(RoaringBitmapArrayFormat.Portable());
        Option offset = Option.apply(Integer.valueOf(writer.write(content).offset()));
        return DeletionVectorDescriptor.onDiskWithRelativePath(id, "", content.length, deleted.cardinality(), offset, Option.empty());
    }

    /** Returns what the commit has to say of the files. */
    public List actions() {
        return actions;
    }
}
